-- What is not billed by tokens: micro-Rupiah for one image, second, song, page or call.
alter table price_version add column unit bigint check (unit >= 0);
