-- THE decision: which source pays, how many output tokens it carries, or why none does.
-- Funding order, caps and limits are added here and nowhere else (order of refusals: payg limit, then balance).
-- p_room: balance minus holds. p_full: hold for p_asked tokens; p_least: hold for 1,024 tokens, null when this
-- request must not be lowered. A hold is rounded up once, over the sum.
create type decision as (kind text, max_tokens integer, amount bigint, refusal text);
create function decide(p_room bigint, p_payg_limit_reached boolean, p_asked integer, p_full bigint, p_least bigint,
                       p_input_tokens integer, p_input_price bigint, p_output_price bigint)
returns decision language plpgsql immutable as $$
declare
    v_input numeric;
    v_tokens integer;
begin
    if p_payg_limit_reached then
        return row(null, 0, 0, 'payg_limit_reached')::decision;
    end if;
    if p_full <= p_room then
        return row('payg', p_asked, p_full, null)::decision;
    end if;
    if p_least is null or p_least > p_room then
        return row(null, 0, 0, 'insufficient_balance')::decision;
    end if;
    v_input := p_input_tokens::numeric * p_input_price;
    v_tokens := div(p_room::numeric * 1000000 - v_input, p_output_price::numeric);
    return row('payg', v_tokens, ceil((v_input + v_tokens::numeric * p_output_price) / 1000000), null)::decision;
end $$;
