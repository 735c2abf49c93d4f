-- The keyword arm: BM25 over memory.words, read by index-only scans. Under forced RLS no GIN index
-- serves an ordinary role (the operators are not leakproof), equality on text is, so this inverted
-- index of plain rows is what the policy lets through. Turns of a conversation lend each other part
-- of their weight at query time; no other turn's words ever enter a memory's postings.

create or replace function memory._query_terms(user_id text, agent_id text, words text[], rows_of_user integer)
returns table (word text, idf double precision, df double precision, rank integer, taken boolean)
language plpgsql stable
set search_path from current
set plan_cache_mode = force_generic_plan
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return query
    with counted as materialized (
        -- a count that stops at 3,001: above it a word is common, and its exact count does not matter
        select given.word, (
            select count(*) from (
                select from memory.words as w
                where w.user_id = _query_terms.user_id and w.word = given.word
                    and w.agent_id in (_query_terms.agent_id, '*')
                limit 3001) as bounded)::double precision as df
        from unnest(_query_terms.words) as given (word)
    ),
    newest as materialized (
        select m.place from memory.memories as m
        where m.user_id = _query_terms.user_id and m.state = 'active'
            and exists (select from counted where counted.df > 3000)
        order by m.place desc
        limit 200
    ),
    measured as (
        select counted.word, case
            when counted.df <= 3000 then counted.df
            else greatest(3001, least(_query_terms.rows_of_user, _query_terms.rows_of_user / 200.0 * (
                select count(*) from newest
                where exists (
                    select from memory.words as w
                    where w.user_id = _query_terms.user_id and w.word = counted.word and w.place = newest.place
                        and w.agent_id in (_query_terms.agent_id, '*'))))) end as df
        from counted
        where counted.df > 0
    ),
    ranked as (
        select measured.word, measured.df,
            (row_number() over rarest)::integer as rank,
            sum(measured.df) over rarest as cumulated
        from measured
        window rarest as (order by measured.df, measured.word)
    )
    select ranked.word,
        ln(1 + (greatest(_query_terms.rows_of_user, ranked.df) - ranked.df + 0.5) / (ranked.df + 0.5)),
        ranked.df,
        ranked.rank,
        -- rarest first, while their postings stay bounded
        ranked.rank = 1 or ranked.cumulated <= 5000 + 200 * (ranked.rank - 1)
    from ranked;
end;
$$;
comment on function memory._query_terms(text, text, text[], integer) is
'The words of a query that occur, with their idf = ln(1 + (n − df + 0.5) / (df + 0.5)) among what the agent may see. '
'`taken` words are read from their postings; the common ones only score candidates.';

create or replace function memory._lent()
returns real[]
language sql stable parallel safe
return array[
    memory._number('search.neighbour_before_2'), memory._number('search.neighbour_before'), 1,
    memory._number('search.neighbour_after'), memory._number('search.neighbour_after_2')]::real[];
comment on function memory._lent() is
'What the turns from two before to two after lend of their weight; the third is the turn itself.';

create or replace function memory._keyword_small(
    user_id text, agent_id text, words text[], rows_of_user integer, others bigint[], candidates integer, lent real[],
    filters memory.filters)
returns table (place bigint, score double precision, matched text, full_score double precision)
language plpgsql stable
set search_path from current
set plan_cache_mode = force_generic_plan
set enable_nestloop = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
begin
    return query
    with postings as materialized (
        select w.word, w.place, w.weight
        from memory.words as w
        where w.user_id = _keyword_small.user_id and w.word = any (_keyword_small.words)
            and w.agent_id in (_keyword_small.agent_id, '*')
    ),
    terms as materialized (
        select postings.word,
            ln(1 + (greatest(_keyword_small.rows_of_user, count(*)) - count(*) + 0.5)::double precision
                / (count(*) + 0.5)::double precision) as idf
        from postings
        group by postings.word
    ),
    weighed as materialized (
        select postings.word, postings.place, postings.weight * terms.idf as score
        from postings join terms on terms.word = postings.word
    ),
    summed as materialized (
        select weighed.place, sum(weighed.score) as score from weighed group by weighed.place
    ),
    reached as (
        select summed.place - l.i + 3 as place, sum(summed.score * l.share) as score
        from summed cross join unnest(_keyword_small.lent) with ordinality as l (share, i)
        group by 1
    ),
    chosen as materialized (
        (
            select best.place
            from (select reached.place, reached.score from reached order by reached.score desc offset 0) as best
            cross join lateral (
                select from memory.memories as m
                where m.user_id = _keyword_small.user_id and m.place = best.place
                    and (m.agent_id = _keyword_small.agent_id or m.shared)
                    and m.state = 'active'
                    and memory._matches(m, _keyword_small.filters)
                limit 1) as passing
            order by best.score desc
            limit _keyword_small.candidates
        )
        union
        select other from unnest(_keyword_small.others) as other
    ),
    best as (
        select chosen.place, weighed.word, max(weighed.score * l.share) as score, bool_or(l.i = 3) as own
        from chosen
        cross join unnest(_keyword_small.lent) with ordinality as l (share, i)
        join weighed on weighed.place = chosen.place + l.i - 3
        group by chosen.place, weighed.word
    )
    select chosen.place, coalesce(sum(best.score), 0),
        array_to_string((array_agg(best.word order by best.score desc) filter (where best.own))[1:4], ', '),
        (select sum(terms.idf) from terms)
    from chosen left join best on best.place = chosen.place
    group by chosen.place;
end;
$$;
comment on function memory._keyword_small(
    text, text, text[], integer, bigint[], integer, real[], memory.filters) is
'The keyword arm for up to 2,000 memories and 40 words: every posting is read once. Returns the best places after all filters, and '
'`others`, each with its score: the sum over the words of the greatest weight × idf among the turn and what its neighbours lend. '
'full_score is Σ idf.';

create or replace function memory._keyword_large(
    user_id text, agent_id text, words text[], rows_of_user integer, others bigint[], candidates integer, lent real[],
    filters memory.filters)
returns table (place bigint, score double precision, matched text, full_score double precision)
language plpgsql stable
set search_path from current
set plan_cache_mode = force_generic_plan
set enable_nestloop = off
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    rare text[];
    rare_idfs double precision[];
    common text[];
    common_idfs double precision[];
    total double precision;
begin
    select array_agg(t.word order by t.rank) filter (where t.taken),
        array_agg(t.idf order by t.rank) filter (where t.taken),
        coalesce(array_agg(t.word order by t.rank) filter (where not t.taken), '{}'),
        coalesce(array_agg(t.idf order by t.rank) filter (where not t.taken), '{}'),
        sum(t.idf)
    into rare, rare_idfs, common, common_idfs, total
    from memory._query_terms(
        _keyword_large.user_id, _keyword_large.agent_id, _keyword_large.words, _keyword_large.rows_of_user) as t;
    return query
    with weighed as materialized (
        select term.word, posting.place, posting.weight * term.idf as score
        from unnest(rare, rare_idfs) as term (word, idf)
        cross join lateral (
            select w.place, w.weight
            from memory.words as w
            where w.user_id = _keyword_large.user_id and w.word = term.word
                and w.agent_id in (_keyword_large.agent_id, '*')
            order by w.place desc
            limit 30000) as posting
    ),
    summed as materialized (
        select weighed.place, sum(weighed.score) as score from weighed group by weighed.place
    ),
    reached as (
        select summed.place - l.i + 3 as place, sum(summed.score * l.share) as score
        from summed cross join unnest(_keyword_large.lent) with ordinality as l (share, i)
        group by 1
    ),
    passed as materialized (
        select best.place, row_number() over (order by best.score desc) as rank
        from (select reached.place, reached.score from reached order by reached.score desc offset 0) as best
        cross join lateral (
            select from memory.memories as m
            where m.user_id = _keyword_large.user_id and m.place = best.place
                and (m.agent_id = _keyword_large.agent_id or m.shared)
                and m.state = 'active'
                and memory._matches(m, _keyword_large.filters)
            limit 1) as passing
        order by best.score desc
        limit _keyword_large.candidates
    ),
    chosen as materialized (
        select every.place, min(every.rank) as rank
        from (
            select passed.place, passed.rank from passed
            union all
            select o.place, o.rank from unnest(_keyword_large.others) with ordinality as o (place, rank)) as every
        group by every.place
    ),
    near as materialized (
        select chosen.place, chosen.place + l.i - 3 as turn, l.share, l.i = 3 as own, chosen.rank
        from chosen cross join unnest(_keyword_large.lent) with ordinality as l (share, i)
    ),
    probed as materialized (
        select turns.turn as place, term.word, w.weight * term.idf as score
        from (select distinct near.turn from near where near.rank <= 150) as turns
        cross join unnest(common[:24], common_idfs[:24]) as term (word, idf)
        cross join lateral (
            select p.weight
            from memory.words as p
            where p.user_id = _keyword_large.user_id and p.word = term.word and p.place = turns.turn
                and p.agent_id in (_keyword_large.agent_id, '*')
            limit 1) as w
    ),
    best as (
        select near.place, posted.word, max(posted.score * near.share) as score, bool_or(near.own) as own
        from near
        join (
            select weighed.word, weighed.place, weighed.score from weighed
            union all
            select probed.word, probed.place, probed.score from probed) as posted
            on posted.place = near.turn
        group by near.place, posted.word
    )
    select chosen.place, coalesce(sum(best.score), 0),
        array_to_string((array_agg(best.word order by best.score desc) filter (where best.own))[1:4], ', '), total
    from chosen left join best on best.place = chosen.place
    group by chosen.place;
end;
$$;
comment on function memory._keyword_large(
    text, text, text[], integer, bigint[], integer, real[], memory.filters) is
'The keyword arm for larger users and longer queries: the rarest words are read from their postings while those stay bounded, '
'the common ones (at most 24) only score the best candidates (150 of each arm), by primary key. Returns what memory._keyword_small returns.';
