-- The inverted index follows its memories by trigger, so that no path of a change can miss it. It
-- holds active memories only.

create or replace function memory._post_words()
returns trigger
language plpgsql volatile
set search_path from current
as $$
begin
    if tg_op <> 'INSERT' and old.state = 'active' then
        delete from memory.words as w where w.user_id = old.user_id and w.place = old.place;
    end if;
    if tg_op <> 'DELETE' and new.state = 'active' then
        -- BM25 with k1 = 1, b = 0.5 and a fixed average length of 40 words, so that no weight drifts
        insert into memory.words (user_id, word, place, weight, agent_id)
        select
            new.user_id,
            k.lexeme,
            new.place,
            cardinality(k.positions) * 2 / (cardinality(k.positions) + 0.5 + 0.5 * k.length / 40.0),
            case when new.shared then '*' else new.agent_id end
        from (
            select u.lexeme, u.positions, sum(cardinality(u.positions)) over () as length
            from unnest(new.keywords) as u (lexeme, positions, weights)) as k
        union all
        select new.user_id, '#' || tag, new.place, 0, case when new.shared then '*' else new.agent_id end
        from unnest(new.tags) as tag;
    end if;
    return null;
end;
$$;
comment on function memory._post_words() is
'Keeps memory.words equal to the active memories: a posting per word (BM25 weight) and per tag (#tag, weight 0).';

create or replace trigger memories_words_insert
after insert on memory.memories
for each row execute function memory._post_words();
comment on trigger memories_words_insert on memory.memories is 'Posts the words of a new memory.';

create or replace trigger memories_words_update
after update on memory.memories
for each row
when (
    old.user_id is distinct from new.user_id
    or old.state is distinct from new.state or old.keywords is distinct from new.keywords
    or old.tags is distinct from new.tags or old.shared is distinct from new.shared
    or old.agent_id is distinct from new.agent_id or old.place is distinct from new.place)
execute function memory._post_words();
comment on trigger memories_words_update on memory.memories is 'Posts anew what was changed, and removes what is no longer active.';

create or replace trigger memories_words_delete
after delete on memory.memories
for each row execute function memory._post_words();
comment on trigger memories_words_delete on memory.memories is 'Removes the postings of a deleted memory.';
