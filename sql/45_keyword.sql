-- The keyword arm: BM25 over memory.words, read by index-only scans. Under forced RLS no GIN index
-- serves an ordinary role (the operators are not leakproof), equality on text is, so this inverted
-- index of plain rows is what the policy lets through. Turns of a conversation lend each other part
-- of their weight at query time; no other turn's words ever enter a memory's postings.

create or replace function memory._query_terms(user_id text, agent_id text, words text[], rows_of_user integer)
returns table (word text, idf double precision, df double precision, rank integer, taken boolean)
language plpgsql stable
set search_path from current
set plan_cache_mode = force_generic_plan
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
returns table (step integer, share real)
language sql stable parallel safe
as $$
    values (0, 1.0::real),
        (1, memory._number('search.neighbour_after')::real),
        (-1, memory._number('search.neighbour_before')::real),
        (2, memory._number('search.neighbour_after_2')::real),
        (-2, memory._number('search.neighbour_before_2')::real)
$$;
comment on function memory._lent() is
'What the turn `step` places away lends of its weight.';

create or replace function memory._keyword_candidates(
    user_id text, agent_id text, terms text[], idfs double precision[], candidates integer,
    memory_types text[], tags text[], since timestamptz, until timestamptz, min_confidence real)
returns table (place bigint)
language plpgsql stable
set search_path from current
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    with own as materialized (
        select posting.place, sum(posting.weight * term.idf) as score
        from unnest(_keyword_candidates.terms, _keyword_candidates.idfs) as term (word, idf)
        cross join lateral (
            select w.place, w.weight
            from memory.words as w
            where w.user_id = _keyword_candidates.user_id and w.word = term.word
                and w.agent_id in (_keyword_candidates.agent_id, '*')
            order by w.place desc
            limit 30000) as posting
        group by posting.place
    ),
    lent as materialized (
        select own.place - l.step as place, sum(own.score * l.share) as score
        from own cross join memory._lent() as l
        group by 1
    )
    select best.place
    from (select lent.place, lent.score from lent order by lent.score desc offset 0) as best
    where exists (
        select from memory.memories as m
        where m.user_id = _keyword_candidates.user_id and m.place = best.place
            and (m.agent_id = _keyword_candidates.agent_id or m.shared)
            and m.state = 'active'
            and memory._matches(m, _keyword_candidates.memory_types, _keyword_candidates.tags,
                _keyword_candidates.since, _keyword_candidates.until, _keyword_candidates.min_confidence))
    limit _keyword_candidates.candidates;
end;
$$;
comment on function memory._keyword_candidates(
    text, text, text[], double precision[], integer, text[], text[], timestamptz, timestamptz, real) is
'First stage of the keyword arm: the places with the best sums of own and lent scores, after all filters.';

create or replace function memory._keyword_scores(
    user_id text, agent_id text, places bigint[], terms text[], idfs double precision[])
returns table (place bigint, score double precision, matched text[])
language plpgsql stable
set search_path from current
set plan_cache_mode = force_generic_plan
as $$
begin
    return query
    with near as materialized (
        select given.place, given.place + l.step as other, l.share
        from unnest(_keyword_scores.places) as given (place) cross join memory._lent() as l
    ),
    posted as materialized (
        select turn.place as other, term.word, w.weight * term.idf as score
        from (select distinct near.other as place from near) as turn
        cross join unnest(_keyword_scores.terms, _keyword_scores.idfs) as term (word, idf)
        join memory.words as w
            on w.user_id = _keyword_scores.user_id and w.word = term.word and w.place = turn.place
            and w.agent_id in (_keyword_scores.agent_id, '*')
    ),
    best as (
        select near.place, posted.word, max(posted.score * near.share) as score,
            bool_or(near.share = 1) as own
        from near join posted on posted.other = near.other
        group by near.place, posted.word
    )
    select best.place, sum(best.score),
        coalesce((array_agg(best.word order by best.score desc) filter (where best.own))[1:4], '{}')
    from best
    group by best.place;
end;
$$;
comment on function memory._keyword_scores(text, text, bigint[], text[], double precision[]) is
'Second stage of the keyword arm: for each place the sum over the words of the greatest weight × idf among the turn and what its neighbours lend.';
