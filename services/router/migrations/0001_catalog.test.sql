-- Prices and revisions never change, whatever statement tries it.
insert into price_version (version, input, output) values ('price_t', 1, 2);
insert into model_revision (model_id, version, for_sale, content) values ('m', 1, true, '{}');
do $$
declare
    statement text;
begin
    foreach statement in array array[
        'update price_version set input = 3', 'delete from price_version', 'update model_revision set version = 2',
        'delete from model_revision'
    ] loop
        begin
            execute statement;
            raise exception 'went through: %', statement;
        exception when integrity_constraint_violation then
            null;
        end;
    end loop;
end
$$;
do $$
begin
    insert into model (id, version, for_sale, price_version, content) values ('m', 1, true, 'price_unknown', '{}');
    raise exception 'a model without a stored price went in';
exception when foreign_key_violation then
    null;
end
$$;
do $$
begin
    insert into price_version (version, input, output) values ('price_n', -1, 2);
    raise exception 'a negative price went in';
exception when check_violation then
    null;
end
$$;
