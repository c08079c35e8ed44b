-- Only a per-tool key has a parent, and a shared key always has an end and models.
insert into account (account_id, name) values ('acct_k', 'test');
insert into api_key (key_id, key_hash, account_id, label, kind)
values ('key_login', repeat('b', 64), 'acct_k', '', 'login');
insert into api_key (key_id, key_hash, account_id, label, kind, parent_key_id)
values ('key_tool', repeat('c', 64), 'acct_k', '', 'tool', 'key_login');
do $$
begin
    insert into api_key (key_id, key_hash, account_id, label, kind)
    values ('key_orphan', repeat('d', 64), 'acct_k', '', 'tool');
    raise exception 'a per-tool key had no login key';
exception when check_violation then
    null;
end
$$;
do $$
begin
    insert into api_key (key_id, key_hash, account_id, label, kind, shared, models)
    values ('key_endless', repeat('d', 64), 'acct_k', '', 'shared', true, '{m}');
    raise exception 'a shared key had no end';
exception when check_violation then
    null;
end
$$;
do $$
begin
    insert into api_key (key_id, key_hash, account_id, label, kind, shared, expires_at)
    values ('key_wide', repeat('d', 64), 'acct_k', '', 'shared', true, now() + interval '1 day');
    raise exception 'a shared key was for every model';
exception when check_violation then
    null;
end
$$;
do $$
begin
    update api_key set capabilities = '{everything}' where key_id = 'key_login';
    raise exception 'an unknown capability was stored';
exception when check_violation then
    null;
end
$$;
