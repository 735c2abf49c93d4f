"""What is found by words alone, in any language, whatever the query is."""

import pytest
from tests.sql.calling import Caller, at_cosine, refused, vector

CHAT = (
    "we talked about the weather",
    "lunch was fine",
    "see you tomorrow",
    "the scheduler is slow",
)


def chatty(bot: Caller, count: int = 200) -> None:
    """Rows that say nothing in particular, as near to vector(1) as such rows are to a query."""
    texts = "array['" + "', '".join(CHAT) + "']"
    bot.fill(count, f"({texts})[1 + n % 4] || ', part ' || n", f"'{at_cosine(0.4)}'")


def test_r05_an_identifier_among_chatty_rows_is_first(bot: Caller) -> None:
    chatty(bot)
    bot.save("ERR_QX_7719 raised by scheduler", embedding=at_cosine(0.2))
    assert bot.found("ERR_QX_7719")[0] == "ERR_QX_7719 raised by scheduler"
    assert bot.found("err_qx_7719")[0] == "ERR_QX_7719 raised by scheduler"


def test_r05_it_is_first_although_the_vectors_rank_it_last(bot: Caller) -> None:
    chatty(bot)
    bot.save("ERR_QX_7719 raised by scheduler", embedding=at_cosine(0.2))
    found = bot.found("ERR_QX_7719", embedding=vector(1))
    assert found[0] == "ERR_QX_7719 raised by scheduler"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("今天玩成语接龙游戏", "成语接龙"),
        ("做好财务护城河", "财务护城河"),
        ("今日は成語しりとりをした", "しりとり"),
        ("오늘 끝말잇기 게임을 했다", "끝말잇기"),
        ("昨日、京都で抹茶アイスを食べました", "抹茶"),
        ("ラーメンが好きです", "ラーメン"),
        ("친구와 김치찌개를 먹었다", "김치찌개"),
        ("วันนี้เราไปตลาดน้ำที่กรุงเทพ", "ตลาดน้ำ"),
        ("Die Straßenbahn fährt über die Brücke", "strassenbahn brucke"),
        ("Wir wohnen in Österreich", "ÖSTERREICH"),
        ("Сервер Москва перезапущен", "МОСКВА"),
        ("Ёлка стоит в зале", "елка"),
        ("Η Αθήνα είναι όμορφη", "αθηνα"),
        ("J'ai mangé une crème brûlée", "creme brulee"),
        ("Đà Nẵng là thành phố biển", "da nang"),
        ("اجتماع الفريق يوم الأحد", "اجتماع"),
        ("पासवर्ड बदल दिया", "पासवर्ड"),
        ("ｆｕｌｌｗｉｄｔｈ ＥＲＲ４２", "fullwidth err42"),
    ],
)
def test_r55_a_text_in_any_language_is_found_by_a_part_of_it(
    bot: Caller, text: str, query: str
) -> None:
    chatty(bot, 20)
    bot.save_list("天气很好，我们去公园", "明日は会議です", "그냥 메모", text)
    assert bot.found(query)[0] == text


@pytest.mark.parametrize("query", ["止损", "健康", "红线", "中文", "设备"])
def test_r56_a_word_of_two_characters_inside_a_longer_run_is_found(bot: Caller, query: str) -> None:
    texts = [
        "交易时一定要先设置止损再入场",
        "每年做一次全面健康检查最稳妥",
        "这是我们团队不能碰的红线问题",
        "他的母语是中文但也说英语",
        "新买的设备还没有到货",
        "无关的一句话",
    ]
    bot.save_list(*texts)
    assert query in bot.found(query)[0]


def test_r58_both_halves_of_mixed_text_match(bot: Caller) -> None:
    texts = ["用 go 写的服务", "部署在周五", "the deployment is done", "nothing to see"]
    bot.save_list(*texts)
    assert set(bot.found("go 部署 deployment")) == set(texts[:3])


@pytest.mark.parametrize("query", ["ERR_CONN", "err_conn", "错误码", "42", "修复"])
def test_r58_an_identifier_next_to_chinese_is_a_word_of_its_own(bot: Caller, query: str) -> None:
    bot.save_list("修复ERR_CONN错误码42", "别的事情", "connection is fine")
    assert bot.found(query)[0] == "修复ERR_CONN错误码42"


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("we deployed the servers", "deploying server"),
        ("see foo.bar/baz_qux for it", "baz_qux"),
        ("parseHttpRequest fails", "http request"),
        ("written in C++ and C#", "C++"),
        ("mail to kim@example.com", "kim@example.com"),
        ("the user's phone", "users"),
        ("version 3.14.1 is out", "3.14.1"),
        ("run `kubectl get pods`", "kubectl"),
        ("```python\nimport torch\n```", "torch"),
        ("<div class='x'>inside</div>", "inside"),
    ],
)
def test_words_are_found_in_other_forms_and_identifiers_whole_and_in_parts(
    bot: Caller, text: str, query: str
) -> None:
    bot.save_list("something else", text, "another thing")
    assert bot.found(query)[0] == text


@pytest.mark.parametrize("query", ["the who", "The Who", "THE WHO?"])
def test_a_query_of_stop_words_only_is_read_as_a_name(bot: Caller, query: str) -> None:
    bot.save_list("saw The Who live in Leeds", "the dog who barks", "who is the man")
    assert bot.found(query) == ["saw The Who live in Leeds"]


HOSTILE = [
    "ratio > 1.001)",
    "a | b /",
    "```",
    "`x`",
    '"unbalanced',
    ":*",
    "foo:*",
    "'); drop table memory.memories; --",
    "!!!",
    "& | ! <-> ( )",
    "\\",
    "\\'",
    "%_%",
    "$1 {} %s",
    "\x01\x7f",
    "👩‍👩‍👧‍👦",
    "\u202e\u200d",
    "(((((((((",
    "a" * 5000,
    "龍" * 5000,
    "- " * 500,
]


@pytest.mark.parametrize("query", HOSTILE)
def test_r63_no_query_is_a_syntax_error(bot: Caller, query: str) -> None:
    bot.save_list("the ratio > 1.001) was wrong", "a | b / c", "'); drop table students; --")
    bot.search(query)
    bot.search(query, embedding=vector(1))
    assert bot.reply("search_reply", query=query)["memories"] is not None
    assert len(bot.contents()) == 3


def test_r63_what_such_a_query_says_is_still_found(bot: Caller) -> None:
    bot.save_list("the ratio > 1.001) was wrong", "an unbalanced quote", "other")
    assert bot.found("ratio > 1.001)")[0] == "the ratio > 1.001) was wrong"
    assert bot.found('"unbalanced')[0] == "an unbalanced quote"


@pytest.mark.parametrize("query", ["", " \t\n", None])
def test_r63_an_empty_query_is_an_error(bot: Caller, query: str | None) -> None:
    bot.save("text")
    with refused("MP005"):
        bot.call("search", query=query)


def test_r10_a_query_of_two_thousand_common_words_is_answered(bot: Caller) -> None:
    chatty(bot)
    query = " ".join(CHAT[n % 4] for n in range(500))
    assert len(query.split()) > 1500
    assert len(bot.search(query)) == 10


def test_a_query_beyond_a_megabyte_is_an_error_that_states_the_limit(bot: Caller) -> None:
    bot.save("text")
    assert bot.search("x" * 1_048_576) == []
    with refused("MP005") as caught:
        bot.search("x" * 1_048_577)
    assert "1048576" in str(caught.value).replace("1.048576e+06", "1048576")
