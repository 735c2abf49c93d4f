-- Text: what a memory's words are. One function, memory.tokens, makes the tokens of documents and of
-- queries, so the two sides can never disagree. It is built on regular expressions and Unicode
-- normalisation because the text search parser depends on the database's lc_ctype, splits
-- identifiers, and takes a run of Chinese as one token.

create or replace function memory._fold(input text)
returns text
language sql immutable parallel safe
return translate(
    normalize(
        regexp_replace(normalize(replace(input, 'ß', 'ss'), nfkd), '[\u0300-\u036f]', '', 'g'),
        nfc),
    'ØøĐđŁłıӘә', 'OoDdLliӘә');
comment on function memory._fold(text) is
'Folds compatibility forms (NFKC) and Latin, Greek and Cyrillic accents; keeps case, kana and Hangul.';

create or replace function memory._lower(input text)
returns text
language sql immutable parallel safe
return translate(
    lower(input),
    'АБВГДЕЖЗИЙКЛМНОПРСТУФХЦЧШЩЪЫЬЭЮЯІЄЂЉЊЋЏΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩς',
    'абвгдежзийклмнопрстуфхцчшщъыьэюяієђљњћџαβγδεζηθικλμνξοπρστυφχψωσ');
comment on function memory._lower(text) is
'Lower case that does not depend on lc_ctype for Latin (after _fold), Cyrillic and Greek.';

create or replace function memory.tokens(input text)
returns table (word text, "position" integer)
language sql immutable parallel safe
set search_path from current
as $$
    -- runs: identifiers (letters and digits joined by . _ / @ : + # -), then words of any alphabet,
    -- then runs of scripts that are written without spaces
    with runs as materialized (
        select
            run.ordinality::integer as n,
            run.parts[1] as identifier,
            run.parts[2] as plain,
            run.parts[3] as unspaced
        from regexp_matches(
            regexp_replace(memory._fold(tokens.input),
                '([A-Za-z])[''’](s|m|re|ve|ll|d|t)\M', '\1', 'gi'),
            '([A-Za-z0-9_]+(?:[._/@:+#-]+[A-Za-z0-9_]+)+[+#]*|[A-Za-z0-9]*_[A-Za-z0-9_]*|[A-Za-z]+(?:\+\+|#))'
            '|((?:(?![\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uac00-\ud7a3\uf900-\ufaff])[[:alnum:]\u0300-\u036f\u0400-\u052f\u0370-\u03ff\u0590-\u06ff\u0900-\u0dff])+)'
            '|([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff]+|[\u3005-\u3007\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+|[\uac00-\ud7a3]+)',
            'g') with ordinality as run (parts, ordinality)
    ),
    -- Latin words: whole runs, parts of identifiers, parts of camelCase
    pieces as (
        select runs.n, memory._lower(runs.identifier) as whole, null::text as piece
        from runs
        where runs.identifier is not null
        union all
        select runs.n, null, part
        from runs, regexp_split_to_table(
            regexp_replace(runs.identifier, '([a-z0-9])([A-Z])', '\1 \2', 'g'),
            '[^A-Za-z0-9]+') as part
        where runs.identifier is not null and part <> ''
        union all
        select runs.n, null, runs.plain
        from runs
        where runs.plain is not null
        union all
        select runs.n, null, part
        from runs, regexp_split_to_table(
            regexp_replace(runs.plain, '([a-z0-9])([A-Z])', '\1 \2', 'g'), ' ') as part
        where runs.plain ~ '[a-z0-9][A-Z]'
    ),
    stemmed as (
        select
            pieces.n,
            pieces.whole,
            pieces.piece,
            memory._lower(pieces.piece) as lowered,
            ts_lexize('pg_catalog.english_stem', memory._lower(pieces.piece)) as stem
        from pieces
    ),
    -- a stop word counts where it is a name: in capitals (IT), or capitalised after another (The Who)
    words as (
        select
            stemmed.n,
            0 as i,
            case
                when stemmed.whole is not null then stemmed.whole
                when cardinality(stemmed.stem) > 0 then stemmed.stem[1]
                when stemmed.piece ~ '^[A-Z]{2,}$' and tokens.input ~ '[a-z]' then stemmed.lowered
                when stemmed.piece ~ '^[A-Z][a-z]+$'
                    and lag(stemmed.stem) over (order by stemmed.n) = '{}'
                    then lag(stemmed.lowered) over (order by stemmed.n) || ' ' || stemmed.lowered
            end as word
        from stemmed
        union all
        select runs.n, i, substr(runs.unspaced, i, width)
        from runs,
            generate_series(1, length(runs.unspaced)) as i,
            (values (1), (2)) as widths (width)
        where runs.unspaced is not null and i + width - 1 <= length(runs.unspaced)
    )
    select left(words.word, 64), (row_number() over (order by words.n, words.i))::integer
    from words
    where words.word is not null
$$;
comment on function memory.tokens(text) is
'Tokens of a text, for documents and queries alike: English stems, identifiers whole and in parts, '
'single characters and bigrams of Chinese, Japanese, Korean and Thai runs; accents folded, at most 64 characters each.';

create or replace function memory._query_words(input text)
returns text[]
language sql immutable parallel safe
set search_path from current
as $$
    with found as materialized (
        select distinct t.word from memory.tokens(_query_words.input) as t
    )
    select coalesce(
        (select array_agg(found.word) from found),
        -- nothing but stop words: read them as a name ("the who")
        (select array_agg(distinct t.word)
            from memory.tokens(initcap(memory._fold(_query_words.input))) as t),
        '{}')
$$;
comment on function memory._query_words(text) is
'The distinct words to search for. A query of stop words only is read as a name.';

create or replace function memory._keywords(input text)
returns tsvector
language sql immutable parallel safe
set search_path from current
as $$
    select coalesce(
        string_agg('''' || t.word || ''':' || least(t."position", 16383), ' ')::tsvector,
        ''::tsvector)
    from memory.tokens(_keywords.input) as t
$$;
comment on function memory._keywords(text) is
'The tokens of a text as a tsvector: the source of its postings in memory.words.';

create or replace function memory.indexed_text(content text)
returns text
language sql immutable parallel safe
as $$
    -- what consists of markup only is taken as it is
    select case when stripped.text ~ '\S' then btrim(stripped.text) else $1 end
    from (select regexp_replace(
        regexp_replace(
            regexp_replace(
                regexp_replace($1, '^[ \t]*```[A-Za-z0-9_+-]*[ \t]*$', '', 'gn'),
                '</?[A-Za-z][A-Za-z0-9-]*(\s[^<>]*)?/?>', ' ', 'g'),
            '^\s*\[?\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?(\.\d+)?(Z|[+-]\d{2}:?\d{2})?\]?\s*', '', 'gn'),
        '[ \t]{2,}', ' ', 'g') as text) as stripped
$$;
comment on function memory.indexed_text(text) is
'What of a content is embedded and indexed: without markup tags, the marks of code fences and bare '
'timestamps at the start of a line. The content itself is kept as given.';

create or replace function memory._script(input text)
returns real
language sql immutable parallel safe
return case when _script.input = '' then 0
    else (octet_length(_script.input) - length(_script.input))::real / length(_script.input) end;
comment on function memory._script(text) is
'The kind of script of a text: about 0 Latin, 1 Cyrillic, Greek, Arabic, 2 Chinese, Japanese, Korean, Thai; between them a mixture.';

create or replace function memory._content_hash(content text)
returns bytea
language sql immutable parallel safe
-- the spaces are named: which ones \s knows depends on the locale
return sha256(convert_to(
    btrim(regexp_replace(_content_hash.content, '[\s\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+', ' ', 'g')),
    'UTF8'));
comment on function memory._content_hash(text) is
'Identity of a text: SHA-256 after folding white space.';

create or replace function memory.estimate_tokens(input text)
returns integer
language sql immutable parallel safe
return ceil(
    (length(estimate_tokens.input) - (octet_length(estimate_tokens.input) - length(estimate_tokens.input)) / 2.0) / 4.0
    + (octet_length(estimate_tokens.input) - length(estimate_tokens.input)) / 2.0 * 0.75)::integer;
comment on function memory.estimate_tokens(text) is
'Estimate of the model tokens of a text: a quarter per ASCII character, three quarters per character of three bytes (Chinese). '
'Within about 30 % of common tokenisers on English and Chinese prose.';
