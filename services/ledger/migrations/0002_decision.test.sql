-- The decision at its edges: full, lowered to the last token, the floor, never lowered, the limit first.
do $$
declare
    v decision;
begin
    -- 100 input tokens at 2,000 and output at 8,000 micro-Rupiah each.
    v := decide(16200000, false, 2000, 16200000, 8392000, 100, 2000000000, 8000000000);
    assert (v.kind, v.max_tokens, v.amount) = ('payg', 2000, 16200000), 'what fits is not lowered';
    v := decide(16199999, false, 2000, 16200000, 8392000, 100, 2000000000, 8000000000);
    assert (v.max_tokens, v.amount) = (1999, 16192000), 'one token less';
    v := decide(8392000, false, 2000, 16200000, 8392000, 100, 2000000000, 8000000000);
    assert v.max_tokens = 1024, 'the floor is granted';
    v := decide(8391999, false, 2000, 16200000, 8392000, 100, 2000000000, 8000000000);
    assert v.refusal = 'insufficient_balance', 'below the floor nothing is';
    v := decide(8000000, false, 1000, 8200000, null, 100, 2000000000, 8000000000);
    assert v.refusal = 'insufficient_balance', 'a small request is never lowered';
    v := decide(-1, false, 1, 0, null, 0, 0, 0);
    assert v.refusal = 'insufficient_balance', 'below zero nothing runs, not even for nothing';
    v := decide(16200000, true, 2000, 16200000, 8392000, 100, 2000000000, 8000000000);
    assert v.refusal = 'payg_limit_reached', 'the limit comes first';
end $$;
