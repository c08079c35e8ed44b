-- A token cap and the caps of a shared key are fixed; a member is a person; a share has one link nobody can guess.
insert into account (account_id, name) values ('acct_l', 'test');
insert into api_key (key_id, key_hash, account_id, label, token_cap)
values ('key_l', repeat('e', 64), 'acct_l', '', 5);
insert into api_key (key_id, key_hash, account_id, label, kind, shared, expires_at, models, spend_cap_micro_idr)
values ('key_s', repeat('f', 64), 'acct_l', '', 'shared', true, now() + interval '1 day', '{m}', 7);
update api_key set spend_cap_micro_idr = 9, cap_period = 'day', cap_epoch = 1 where key_id = 'key_l';
do $$
begin
    update api_key set token_cap = 6 where key_id = 'key_l';
    raise exception 'a token cap was changed';
exception when integrity_constraint_violation then
    null;
end
$$;
do $$
begin
    update api_key set spend_cap_micro_idr = 8 where key_id = 'key_s';
    raise exception 'a cap of a shared key was changed';
exception when integrity_constraint_violation then
    null;
end
$$;
do $$
begin
    update api_key set cap_epoch = 1 where key_id = 'key_s';
    raise exception 'the caps of a shared key were started anew';
exception when integrity_constraint_violation then
    null;
end
$$;
do $$
begin
    update api_key set member_id = 'person_none' where key_id = 'key_l';
    raise exception 'a key was nobody''s';
exception when foreign_key_violation then
    null;
end
$$;
do $$
begin
    update api_key set allowed_ips = array_fill('10.0.0.1'::text, array[51]) where key_id = 'key_l';
    raise exception 'a key had 51 addresses';
exception when check_violation then
    null;
end
$$;
insert into share_link (link_token, key_id) values (repeat('t', 22), 'key_s');
do $$
begin
    insert into share_link (link_token, key_id) values (repeat('u', 22), 'key_s');
    raise exception 'a share had two links';
exception when unique_violation then
    null;
end
$$;
do $$
begin
    insert into share_link (link_token, key_id) values ('short', 'key_l');
    raise exception 'a link could be guessed';
exception when check_violation then
    null;
end
$$;
