-- An outcome is whole or not there, and a body has a size that can be sent.
insert into idempotency (account_id, key_id, key, request_id, fingerprint, state, lease_until)
values ('acct_i', '', 'k', gen_random_uuid(), decode(repeat('ab', 32), 'hex'), 'running', now());
do $$
begin
    update idempotency set state = 'kept', status = 200 where key = 'k';
    raise exception 'half an outcome was kept';
exception when check_violation then
    null;
end
$$;
do $$
begin
    update idempotency set state = 'kept', status = 200, headers = '[]', body = convert_to(repeat('x', 1048577), 'UTF8');
    raise exception 'a body too large to be sent was kept';
exception when check_violation then
    null;
end
$$;
do $$
begin
    insert into idempotency (account_id, key_id, key, request_id, fingerprint, state, lease_until)
    values ('acct_i', '', 'k', gen_random_uuid(), decode(repeat('cd', 32), 'hex'), 'running', now());
    raise exception 'one key was claimed twice';
exception when unique_violation then
    null;
end
$$;
