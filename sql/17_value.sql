-- What a memory is worth whatever is asked, who speaks in it, and which kinds of answer it holds.
-- Computed once, when a text is saved or corrected; the rules are rows, so a DBA can read and change
-- them. The weights are set by hand, none is fitted.

insert into memory.value_rules (name, pattern, weight, at_most, meaning) values
    ('first person', '\m(i|i''m|i''ve|i''d|i''ll|my|me|we|our|us)\M|我|咱|俺', 0.12, 3,
        'tells about the person who speaks'),
    ('ends with a question', '[?？]\s*$|[吗呢么]\s*[?？。!！]*\s*$', -0.25, 1, 'asks instead of telling'),
    ('asks', '[?？]', -0.1, 1, 'asks on the way'),
    ('number', '\d|[一二两三四五六七八九十百]+[个次年月天号岁点元块斤公里]', 0.05, 1, 'a number, date or amount'),
    ('opens with applause',
        '^\s*(wow|hey|hi|hello|thanks|thank you|yeah|yes|that''s|sounds|cool|awesome|great|glad|good|nice|'
        'amazing|congrats|haha|ok|okay|sure|哇|你好|您好|谢谢|多谢|好的|好啊|嗯|是的|是啊|太好了|太棒了|不错|哈哈|没错|当然)',
        -0.1, 1, 'reacts, greets or thanks')
on conflict (name) do nothing;

insert into memory.answer_kinds (name, query_pattern, content_pattern, boost, meaning) values
    ('time',
        '^(and |so )?(when|what (date|day|year|month|time)|how long|since when|in which (year|month)|which (day|year|month))\M'
        '|什么时候|何时|哪[一]?[天年月日]|几[点号月]|多久|多长时间|哪个[月星周]',
        '\m(yesterday|today|tonight|tomorrow|last|next|ago|weeks?|weekend|months?|years?|mornings?|afternoon|evening|'
        'monday|tuesday|wednesday|thursday|friday|saturday|sunday|january|february|march|april|june|july|august|'
        'september|october|november|december|(19|20)\d\d|since|recently|soon|days?|summer|winter|spring|fall)\M'
        '|昨天|今天|明天|前天|后天|昨晚|今晚|上周|下周|这周|周[一二三四五六日末]|星期|上个?月|下个?月|去年|今年|明年|\d+[年月日号点]|[一二三四五六七八九十]+[月日号点]|最近|以前|之前|以后',
        0.2, 'asks when; such a memory speaks of a time'),
    ('number',
        '^(and |so )?how (many|much|old|often|far|big|tall)\M|多少|几[个次岁本只位人种件条张]|多[大高远重]',
        '\m(\d+|one|two|three|four|five|six|seven|eight|nine|ten|several|few|twice|once)\M|\d|[一二两三四五六七八九十百千万]+[个次岁本只位人种件条张元块斤公]',
        0.1, 'asks how many; such a memory holds a number')
on conflict (name) do nothing;

create or replace function memory._speaker(content text)
returns text
language sql immutable parallel safe
as $$
    select memory._lower(memory._fold(substring($1 from '^\s*([^\s:：,，。.!?]{1,30}(?: [^\s:：,，。.!?]{1,30})?)\s?[:：]\s')))
$$;
comment on function memory._speaker(text) is
'Who speaks, where a content begins with "Name: "; in lower case. Null otherwise.';

create or replace function memory.value_of(content text)
returns real
language sql stable parallel safe
set search_path from current
as $$
    with said as (
        -- without the name of the speaker
        select regexp_replace($1, '^\s*[^\s:：,，。.!?]{1,30}(?: [^\s:：,，。.!?]{1,30})?\s?[:：]\s', '') as text
    ),
    lowered as (
        select memory._lower(said.text) as text,
            -- a Chinese word has about one and a half characters
            (select count(*) from regexp_matches(said.text, '[A-Za-z0-9À-ɏЀ-ӿ]+', 'g')) as words,
            (octet_length(said.text) - length(said.text)) / 2 / 1.5 as unspaced
        from said
    )
    select (memory._number('value.length_weight') * ln(1 + lowered.words + lowered.unspaced) / 3.5
        + coalesce((
            select sum(r.weight * least(r.at_most, found.times))
            from memory.value_rules as r
            cross join lateral (
                select count(*) as times
                from (select from regexp_matches(lowered.text, r.pattern, 'g') limit r.at_most) as bounded) as found), 0))::real
    from lowered
$$;
comment on function memory.value_of(text) is
'What a text is worth remembering, whatever is asked: about 0.2 for chat, 0.6 and more for a statement about somebody. '
'Logarithm of the length plus the rules of memory.value_rules.';

create or replace function memory._answers(content text)
returns text[]
language sql stable parallel safe
set search_path from current
as $$
    select coalesce(array_agg(k.name order by k.name), '{}')
    from memory.answer_kinds as k
    where memory._lower($1) ~ k.content_pattern
$$;
comment on function memory._answers(text) is 'The kinds of answer (memory.answer_kinds) that a text holds.';
