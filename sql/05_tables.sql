-- What each table and column means.

do $$
begin
    if current_setting('search_path') not like 'pg_catalog, %' then
        raise exception 'an installation is one transaction, and this one is not'
            using hint = 'Run: psql -1 -f install.sql';
    end if;
end;
$$;

comment on table memory.migrations is 'Migrations that ran in this database, with the checksum of their text. A breaking one makes older servers refuse to start.';
comment on table memory.settings is 'Tunables. Set value to change one, null to go back to the default.';
comment on table memory.memory_types is 'Kinds of memory: half-life of relevance, retention without access, protection from bulk forgetting. A DBA may add rows.';
comment on column memory.memory_types.half_life_days is 'Days after which recency adds half as much to a score.';
comment on column memory.memory_types.retention_days is 'Days without access after which a memory may be forgotten; null keeps it.';
comment on column memory.memory_types.protected is 'Bulk forgetting skips this type unless it is named.';
comment on column memory.memory_types.named_by is 'Words, as memory.tokens gives them, by which a query names this type; its memories then score a little higher.';
comment on type memory.filters is 'What a search or list is limited to: types, tags, the window [since, until), a confidence floor, and, if not null, the only places that count.';
comment on type memory.reading is 'What a query says: the text to search for, the filters that it names, notes for the reply, and the time that it speaks of, with the words it was read from.';
comment on table memory.sources is 'Where a memory comes from: default and maximum confidence, and how far its content is trusted.';
comment on table memory.value_rules is 'Rules of memory.value_of: a regular expression over the lower-case text, its weight, and how often it counts at most.';
comment on table memory.answer_kinds is 'Kinds of answer: what a query that wants one looks like, what a memory that holds one looks like, and what that adds to its score.';
comment on table memory.time_words is 'Words of time expressions: kind (N number, O ordinal, U unit, R last/this/next, W weekday, M month, H holiday, P part of day …; small letters stand for themselves), value, unit. A DBA may add rows.';
comment on index memory.time_words_head is 'Finds the words that begin like a piece of text.';
comment on table memory.time_rules is 'How kinds of words stand together: pattern, level (lower first), meaning (a branch of memory._time_meaning and what it calls), which parts it takes (99: none), result kind.';
comment on table memory.users is 'The users. Created by a token, by the first save, or at the start of local mode.';
comment on column memory.users.time_zone is 'IANA name; the zone of calls that carry none.';
comment on table memory.access_tokens is 'SHA-256 digests of bearer tokens. No role may select; see memory.authenticate.';
comment on table memory.conversations is 'Numbers conversations and counts their turns, for memories.place.';
comment on sequence memory.conversation_numbers is 'Numbers of conversations, unique across users.';
comment on table memory.memories is 'The memories. Hash-partitioned by user_id; row-level security by user and agent.';
comment on column memory.memories.id is 'UUID version 7: ordered by time of creation.';
comment on column memory.memories.confidence is 'Share from 0 to 1; at most the maximum of its source.';
comment on column memory.memories.confirmed_at is 'When a person confirmed it; a save never sets it.';
comment on column memory.memories.shared is 'Readable by all agents of the user; writable by its own agent only.';
comment on column memory.memories.occurred_at is 'When it was said or happened.';
comment on column memory.memories.event_from is 'Start of the time that the text speaks of; null if none.';
comment on column memory.memories.event_to is 'End of the time that the text speaks of, exclusive.';
comment on column memory.memories.valid_from is 'Since when it holds; by default since it occurred.';
comment on column memory.memories.valid_to is 'Until when it held, exclusive; null while it holds.';
comment on column memory.memories.superseded_by is 'The memory that replaced it when the world changed.';
comment on column memory.memories.state is 'active: searched. superseded: no longer current. archived: put away, restorable. forgotten: purged after the grace period.';
comment on column memory.memories.content_hash is 'SHA-256 of the content after folding white space.';
comment on column memory.memories.place is 'Number within the user: number of the conversation × 2^20 + number of the turn. A neighbouring turn is place ± 1.';
comment on column memory.memories.value is 'What it is worth whatever is asked (memory.value_of).';
comment on column memory.memories.speaker is 'Who speaks, where the content begins with "Name: ".';
comment on column memory.memories.answers is 'The kinds of answer that it holds (memory.answer_kinds).';
comment on column memory.memories.version is 'Counts the changes, from 1.';
comment on column memory.memories.keywords is 'Its tokens (memory.tokens) with positions; the source of memory.words. A DBA queries it with @@.';
comment on column memory.memories.embedding is 'Its vector by the recorded model, of unit length; null until embedded.';
comment on index memory.memories_same_content is 'The same text of the same agent is one active memory.';
comment on index memory.memories_place is 'Finds neighbours and the rows behind postings.';
comment on index memory.memories_occurred_at is 'Lists a user''s memories by time.';
comment on table memory.words is 'Inverted index: a posting per word and tag (#tag) of an active memory. agent_id * marks shared memories.';
comment on column memory.words.weight is 'BM25 term weight tf·2 / (tf + 0.5 + 0.5·length/40); from 0 (tags) to 2.';
comment on index memory.words_place is 'Finds the postings of a memory.';
comment on table memory.usage is 'How often a memory was found or injected, and when last. Apart from memories, because it changes often.';
comment on table memory.versions is 'What a memory was before each change, and who changed it, when and how. memory.history reads it.';
comment on table memory.requests is 'Idempotency keys and the memory that each made.';
comment on table memory.embedding_queue is 'Memories that wait for a vector. not_before is the end of a worker''s lease or of a pause after a failure.';
comment on index memory.embedding_queue_not_before is 'Finds what is due.';
comment on index memory.access_tokens_digest is 'Finds a token by its digest.';
comment on table memory.embedding_model is 'The model whose vectors are stored: one row, changed by memory.use_model.';
