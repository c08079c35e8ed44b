-- A revoked key cannot be made active again, whatever statement tries it.
insert into account (account_id, name) values ('acct_t', 'test');
insert into api_key (key_id, key_hash, account_id, label) values ('key_t', repeat('a', 64), 'acct_t', '');
update api_key set status = 'revoked', revoked_at = now() where key_id = 'key_t';
do $$
begin
    update api_key set status = 'active', revoked_at = null where key_id = 'key_t';
    raise exception 'a revoked key became active';
exception when integrity_constraint_violation then
    null;
end
$$;
do $$
begin
    insert into api_key (key_id, key_hash, account_id, label) values ('key_u', 'kn-secret', 'acct_t', '');
    raise exception 'something that is no hash was stored as one';
exception when check_violation then
    null;
end
$$;
