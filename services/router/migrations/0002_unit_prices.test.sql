-- A price of a unit is never negative, and as fixed as every other.
insert into price_version (version, input, output, unit) values ('price_u', 0, 0, 500000000);
do $$
begin
    insert into price_version (version, input, output, unit) values ('price_n', 0, 0, -1);
    raise exception 'a negative price went in';
exception when check_violation then
    null;
end
$$;
do $$
begin
    update price_version set unit = 1 where version = 'price_u';
    raise exception 'a price was changed';
exception when integrity_constraint_violation then
    null;
end
$$;
