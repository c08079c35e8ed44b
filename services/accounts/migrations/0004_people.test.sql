-- An address belongs to one person, in lower case, and a role is one of three.
insert into account (account_id, name) values ('acct_p', 'test');
insert into person (person_id, email, name) values ('person_p', 'p@example.com', 'P');
insert into member (account_id, person_id, role) values ('acct_p', 'person_p', 'owner');
do $$
begin
    insert into person (person_id, email, name) values ('person_q', 'Q@example.com', 'Q');
    raise exception 'an address in capitals was stored';
exception when check_violation then
    null;
end
$$;
do $$
begin
    insert into person (person_id, email, name) values ('person_q', 'p@example.com', 'Q');
    raise exception 'two people had one address';
exception when unique_violation then
    null;
end
$$;
do $$
begin
    update member set role = 'king' where person_id = 'person_p';
    raise exception 'an unknown role was stored';
exception when check_violation then
    null;
end
$$;
