-- A name is an account's own once, and a step has both a model and a credential.
insert into named_route (route_id, account_id, name, strategy)
    values ('r1', 'a', 'n', 'fallback'), ('r2', 'b', 'n', 'fallback'), ('r3', 'a', 'N', 'random');
insert into named_route_step (route_id, place, model, credential) values ('r1', 0, 'm', 'balance');
do $$
declare
    statement text;
begin
    foreach statement in array array[
        $q$insert into named_route (route_id, account_id, name, strategy) values ('r4', 'a', 'n', 'random')$q$,
        $q$insert into named_route (route_id, account_id, name, strategy) values ('r4', 'a', repeat('x', 65), 'random')$q$,
        $q$insert into named_route (route_id, account_id, name, strategy) values ('r4', 'a', 'x', 'best')$q$,
        $q$insert into named_route_step (route_id, place, model, credential) values ('r1', 1, '', 'balance')$q$,
        $q$insert into named_route_step (route_id, place, model, credential) values ('r1', 1, 'm', '')$q$,
        $q$insert into named_route_step (route_id, place, model, credential) values ('r1', 0, 'm', 'balance')$q$
    ] loop
        begin
            execute statement;
            raise exception 'went through: %', statement;
        exception when check_violation or unique_violation then
            null;
        end;
    end loop;
end
$$;
delete from named_route where route_id = 'r1';
do $$
begin
    if exists (select from named_route_step where route_id = 'r1') then
        raise exception 'steps outlived their route';
    end if;
end
$$;
