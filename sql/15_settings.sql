-- Settings, types and sources as rows. A DBA changes `value`; the defaults are restated at every
-- install and never overwrite what was changed.

create or replace function memory._setting(name text)
returns jsonb
language sql stable parallel safe
return (
    select coalesce(s.value, s.default_value) from memory.settings as s where s.name = _setting.name);
comment on function memory._setting(text) is 'The value in force of one setting, as jsonb.';

create or replace function memory._number(name text)
returns double precision
language sql stable parallel safe
return (
    select coalesce(s.value, s.default_value)::double precision
    from memory.settings as s where s.name = _number.name);
comment on function memory._number(text) is 'The value in force of one numeric setting.';

create or replace function memory._now()
returns timestamptz
language sql stable
return coalesce((memory._setting('clock.test') #>> '{}')::timestamptz, now());
comment on function memory._now() is
'The clock of every rule: now(), unless the schema''s owner has set clock.test. No client can.';

insert into memory.settings (name, default_value, unit, meaning) values
    ('clock.test', null, 'timestamp', 'a fixed time for every rule, for tests; only the owner can set it'),
    ('schema.code', null, 'SHA-256', 'what memphant install put here last; written by it alone'),
    ('limits.content', '8000', 'characters', 'longest content of a memory'),
    ('limits.tags', '32', 'tags', 'most tags of a memory'),
    ('limits.tag', '64', 'characters', 'longest tag'),
    ('limits.metadata', '16384', 'bytes', 'largest metadata of a memory, as text'),
    ('limits.list', '100', 'items', 'most items of one save'),
    ('limits.results', '1000', 'memories', 'largest limit of a search or list'),
    ('limits.query', '1048576', 'bytes', 'longest query of a search'),
    ('limits.reply', '6000', 'tokens', 'largest reply of a search or list, before a cursor'),
    ('limits.identity', '128', 'characters', 'longest user_id, agent_id, conversation_id or idempotency_key'),
    ('retention.forgotten_days', '30', 'days', 'how long a forgotten memory can be restored'),
    ('retention.request_days', '7', 'days', 'how long an idempotency key is remembered'),
    ('search.keyword_share', '0.5', 'share', 'weight of the keyword score in the fused score; the rest is the cosine''s'),
    ('search.full_cosine', '0.6', 'cosine', 'cosine that counts as a full match'),
    ('search.neighbour_before', '0.6', 'share', 'what the turn before lends of its weight for a word'),
    ('search.neighbour_after', '0.35', 'share', 'what the turn after lends of its weight for a word'),
    ('search.neighbour_before_2', '0.4', 'share', 'what the turn two before lends'),
    ('search.neighbour_after_2', '0.2', 'share', 'what the turn two after lends'),
    ('search.neighbour_score', '0.2', 'share', 'what each neighbouring turn lends of its fused score'),
    ('search.floor', '0', 'score', 'memories below this score are left out; min_score overrides it'),
    ('search.full_weight', '1.6', 'weight', 'weight of a word that counts as a full match (the greatest possible is 2)'),
    ('search.candidates', '60', 'memories', 'candidates of each arm; more for a large limit'),
    ('search.exact_cost', '1', 'ms', 'what comparing 1,000 memories costs the vector arm; only its ratio to search.hnsw_cost counts'),
    ('search.hnsw_cost', '0.9', 'ms', 'what 100 candidates of an HNSW scan cost'),
    ('search.ef_search', '150', 'candidates', 'hnsw.ef_search where the user has the whole partition; more where it has a smaller share'),
    ('search.recency_weight', '0.06', 'share', 'most that recency can add to a score'),
    ('search.confidence_weight', '0.1', 'share', 'most that confidence can move a score'),
    ('search.use_weight', '0.03', 'share', 'most that frequent use can add to a score'),
    ('search.speaker_bonus', '0.2', 'score', 'added for turns of the one speaker whom the query names'),
    ('search.value_weight', '0.15', 'share', 'how much value above or below that of the other candidates moves a score'),
    ('value.length_weight', '0.5', 'share', 'weight of the length of a text in its value'),
    ('search.foreign_share', '0.37', 'share', 'part of the keyword score that the cosine stands in for where query and memory differ in script'),
    ('search.window_boost', '0.2', 'share', 'what a time in the query adds for memories that lie in it or speak of it, where it does not filter'),
    ('search.answer_weight', '1', 'share', 'how much of its boost a memory gets that holds the kind of answer asked for (memory.answer_kinds)'),
    ('search.type_boost', '0.1', 'share', 'what naming a memory''s type or tag in the query adds'),
    ('hnsw.m', '24', 'links', 'links of a vector to others in the HNSW index, 2 to 100; used when it is built (memphant rebuild-index)'),
    ('hnsw.ef_construction', '200', 'candidates', 'breadth of the search for links while the HNSW index is built, at least 2 × hnsw.m'),
    ('worker.lease_seconds', '120', 's', 'how long a claimed memory waits before another worker may embed it')
on conflict (name) do update set
    default_value = excluded.default_value, unit = excluded.unit, meaning = excluded.meaning;

-- who installs by other means leaves no trace of the code that was here before
update memory.settings set value = null where name = 'schema.code';

insert into memory.memory_types (name, meaning, half_life_days, retention_days, protected, named_by) values
    ('user_preference', 'how the user wants things: style, language, tools, habits, likes and dislikes', 365, null, true, '{prefer,偏好,喜好}'),
    ('fact', 'something true about the user, the people around them, or their work', 180, 90, false, '{fact,事实}'),
    ('task_context', 'the state of a piece of work: what was done, what is open', 14, 30, false, '{task,任务}'),
    ('plan', 'something intended or scheduled', 30, 90, false, '{plan,计划}'),
    ('summary', 'the essence of a conversation', 180, null, true, '{summari,摘要,总结}')
on conflict (name) do nothing;

insert into memory.sources (name, meaning, default_confidence, maximum_confidence, trust) values
    ('user', 'the user said it', 0.9, 1, 1),
    ('conversation', 'it came up in a conversation', 0.8, 0.95, 0.8),
    ('assistant', 'a model inferred it', 0.6, 0.8, 0.6),
    ('file', 'read in a file of the user', 0.7, 0.9, 0.6),
    ('tool', 'returned by a tool', 0.5, 0.7, 0.3),
    ('web', 'read on a web page', 0.5, 0.7, 0.2),
    ('log', 'read in a log', 0.5, 0.7, 0.4),
    ('import', 'imported from another system', 0.7, 0.9, 0.5)
on conflict (name) do nothing;
