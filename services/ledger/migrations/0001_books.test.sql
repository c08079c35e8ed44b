-- Partitions: there for every day around now, made once, protected like their parents.
do $$
begin
    assert to_regclass('hold_' || to_char(utc_day(), 'YYYYMMDD')) is not null, 'today has a partition';
    assert to_regclass('usage_row_' || to_char(utc_day() + 7, 'YYYYMMDD')) is not null, 'so has a week from now';
    assert make_partitions(utc_day() - 1, utc_day() + 7) = 0, 'none is made twice';
    assert make_partitions(utc_day() + 8, utc_day() + 8) = 4, 'one per table and day';
    assert not has_table_privilege('transfer_' || to_char(utc_day() + 8, 'YYYYMMDD'), 'update'), 'entries stay';
    assert has_table_privilege('hold_' || to_char(utc_day() + 8, 'YYYYMMDD'), 'update'), 'holds change';
end $$;
