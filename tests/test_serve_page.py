"""The served page, in a browser: a person asks and reviews with it, and nothing else runs in it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from playwright.sync_api import Locator, Page, expect
from report_browser import TEXT_COLOURS, contrast, luminance, violations
from report_contents import HOSTILE
from serve_answers import a_label, a_model, a_policy, a_prediction, an_answer
from serve_browser import OpenPage, Server, serving

import hedgerow
from hedgerow import HedgerowClassifier, HedgerowTextClassifier
from hedgerow.data import read_part
from hedgerow.quality.expectation import ExpectedQuality

Serve = Callable[..., Server]
Demo = tuple[HedgerowTextClassifier, list[str]]

TEXT = "a fast terminal music player with playlists"
TOKEN = "a-token-of-the-tests"
# A lone half of a pair is no text that JSON could carry.
HOSTILE_LABELS = [text for text in HOSTILE if "\ud800" not in text]
LABELS = [
    a_label("sure", [0.97] * 10),
    a_label("likely", [0.85] * 10),
    a_label("open", [0.5] * 10),
    a_label("disputed", [0.0] * 6 + [0.9] * 4),
    a_label("mixed", [0.15] * 5 + [0.45] * 5),
    a_label("unlikely", [0.12] * 10),
    a_label("no", [0.01] * 10),
]
NAMES = [one["label"] for one in LABELS]


def made_up(**changes: Any) -> dict[str, Any]:
    """Answers of a server whose every number is known."""
    return {
        "model": a_model(**changes),
        "predict": an_answer(a_prediction(LABELS)),
        "examples": {"examples": []},
    }


def percent(p: float) -> str:
    return "< 1 %" if 0 < p < 0.005 else f"{int(100 * p + 0.5)} %"


# --- ask ---


def test_typed_text_then_labels_votes_and_probabilities_are_the_models(
    demo_server: Server, open_served: OpenPage
) -> None:
    opened = open_served(demo_server)
    opened.page.locator("#text").click()
    opened.page.keyboard.type(TEXT)
    opened.page.get_by_role("button", name="Suggest labels").click()
    rows = opened.page.locator(".found")
    rows.first.wait_for()
    opened.reveal()
    best = demo_server.model.predict_uncertain([TEXT], k=rows.count())
    votes = demo_server.model.predict_votes([TEXT])
    seen = rows.evaluate_all(
        "(rows) => rows.slice(0, 60).map((row) => [row.querySelector('.found-name').textContent,"
        " row.querySelector('.probability').textContent,"
        " [...row.querySelectorAll('.vote')].map((c) => c.cx.baseVal.value)])"
    )
    shown = {name: (probability, centres) for name, probability, centres in seen}
    assert list(shown) == best.labels[0, :60].tolist()
    for label, probability in zip(best.labels[0].tolist()[:60], best.probability[0].tolist(), strict=False):
        told, centres = shown[label]
        assert told == percent(probability)
        column = int(np.flatnonzero(demo_server.model.classes_ == label)[0])
        # The axis runs from 6 to 234.
        members = 6 + 228 * np.sort(votes.probs[np.flatnonzero(votes.labels == column)[0]])
        assert centres == pytest.approx(members.tolist(), abs=0.06)


def test_example_then_it_is_asked_at_once_and_the_ood_text_gets_a_banner(
    demo_server: Server, open_served: OpenPage
) -> None:
    opened = open_served(demo_server)
    opened.page.locator(".example").first.click()
    expect(opened.page.locator(".found").first).to_be_visible()
    expect(opened.page.locator(".banner.odd")).to_have_count(0)
    assert (opened.page.locator("#text").input_value() or "").startswith("armagetronad")
    opened.page.get_by_role("button", name=re.compile("OOD")).click()
    expect(opened.page.locator(".banner.odd")).to_contain_text(
        "out-of-distribution (OOD): unlike the training data"
    )
    expect(opened.page.locator("#ask-status")).to_contain_text("Warning: this text is out-of-distribution")


@pytest.mark.parametrize(
    ("p_value", "words"), [(0.04, "Only about one in 25"), (0.0004, "Fewer than one in a thousand")]
)
def test_ood_text_then_its_p_value_is_said_in_words(
    demo_server: Server, open_served: OpenPage, p_value: float, words: str
) -> None:
    answers = made_up() | {"predict": an_answer(a_prediction(LABELS, p_value))}
    opened = open_served(demo_server, answers=answers)
    opened.ask(TEXT)
    expect(opened.page.locator(".banner.odd")).to_contain_text(words)
    expect(opened.page.locator(".limits")).to_contain_text(
        "None of this holds for an out-of-distribution input like this one."
    )


def test_answer_that_warns_of_shift_then_its_words_are_shown_and_spoken(
    demo_server: Server, open_served: OpenPage
) -> None:
    words = "Guarantees are not supported here: these 90 inputs are not like the 400 <b>held-out</b> ones."
    answers = made_up() | {"predict": an_answer(a_prediction(LABELS)) | {"shift": words}}
    opened = open_served(demo_server, answers=answers)
    opened.ask(TEXT)
    expect(opened.page.locator(".banner.shifted")).to_have_text(
        f"What this server was asked has shifted. {words}"
    )
    expect(opened.page.locator("#ask-status")).to_contain_text(f"Warning: {words}")


def test_why_then_the_words_are_those_of_explain(demo_server: Server, open_served: OpenPage) -> None:
    opened = open_served(demo_server)
    opened.ask(TEXT)
    label = opened.page.locator(".found-name").first.text_content() or ""
    row = opened.row(label)
    button = row.get_by_role("button", name="Why?")
    button.click()
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(row.locator(".side").first).to_be_visible()
    why = hedgerow.explain(demo_server.model, TEXT, label)
    for side, effects in (("for", why.for_(8)), ("against", why.against(8))):
        words = row.locator(f".side.{side} .word").all_text_contents()
        assert words == [found.feature for found in effects if abs(found.effect) > 0.02]
    marked = row.locator("mark").all_text_contents()
    assert {word.lower() for word in marked} <= {str(word) for word in why.features}
    assert "player" in marked
    assert row.locator(".marked").text_content() == TEXT
    button.click()
    expect(row.locator(".sides")).to_be_hidden()


@pytest.mark.parametrize(
    ("effect", "words"),
    [
        (np.log(3.2), "3.2 times more"),
        (np.log(25), "25 times more"),
        (20.0, "over 1,000 times more"),
        (np.log(1.3), "30 % more"),
        (-np.log(4), "4.0 times less"),
        (np.log(0.8), "20 % less"),
    ],
)
def test_effect_then_it_is_told_as_a_factor(
    demo_server: Server, open_served: OpenPage, effect: float, words: str
) -> None:
    said = [{"word": "word", "effect": effect, "disagreement": 2 * abs(effect)}]
    explanation = {
        "label": "sure",
        "probability": 0.9,
        "votes": [0.9],
        "speaks_for": said if effect > 0 else [],
        "speaks_against": said if effect < 0 else [],
    }
    opened = open_served(demo_server, answers=made_up() | {"explain": explanation})
    opened.ask(TEXT)
    opened.row("sure").get_by_role("button").click()
    expect(opened.page.locator(".times")).to_have_text(f"{words} (the members disagree)")


def test_label_that_no_word_moved_then_the_page_says_so_and_nothing_else(
    demo_server: Server, open_served: OpenPage
) -> None:
    said = [{"word": "word", "effect": 0.001, "disagreement": 0.0}]
    explanation = {
        "label": "sure",
        "probability": 0.9,
        "votes": [0.9],
        "speaks_for": said,
        "speaks_against": [],
    }
    opened = open_served(demo_server, answers=made_up() | {"explain": explanation})
    opened.ask(TEXT)
    opened.row("sure").get_by_role("button").click()
    words = opened.row("sure").locator(".why-words")
    expect(words.locator(".none")).to_have_text(["No single word."] * 2)
    expect(words).not_to_contain_text("null")


def test_uncertainty_then_its_kinds_are_told_apart_in_words(
    demo_server: Server, open_served: OpenPage
) -> None:
    opened = open_served(demo_server, answers=made_up())
    opened.ask(TEXT)
    words = {name: opened.row(name).locator(".uncertainty").text_content() for name in NAMES}
    assert words["sure"] == "nearly sure that it is right"
    assert words["no"] == "nearly sure that it is wrong"
    assert words["open"] == "data uncertainty: could be right or wrong"
    assert words["disputed"] == "knowledge uncertainty: the members disagree"
    assert words["mixed"] == (
        "data and knowledge uncertainty: could be right or wrong, and the members disagree"
    )
    # Sure and no have low uncertainty; of the others only one is disputed.
    expect(opened.page.locator(".summary")).to_have_text(
        "The model expects about three labels. It is uncertain about three labels that could be right or"
        " wrong (data uncertainty), one label on which the members disagree (knowledge uncertainty) and one"
        " label with both."
    )


@pytest.mark.parametrize(
    ("k", "shares", "words"),
    [
        (5, (0.62, 0.4, 0.81), "Of the best five labels, about 3 are right (2 to 4)."),
        (5, (0.2, 0.0, 0.59), "Of the best five labels, about 1 is right (0 to 2)."),
        (5, (0.5, 0.41, 0.59), "Of the best five labels, about 3 are right (3 to 3)."),
        (1, (0.3, 0.0, 1.0), "Of the best label, about 0 are right (0 to 1)."),
    ],
)
def test_answer_with_expected_quality_then_it_is_told_in_words(
    demo_server: Server, open_served: OpenPage, k: int, shares: tuple[float, float, float], words: str
) -> None:
    names = [f"{kind}{end}" for kind in ("precision", "recall") for end in ("", "_low", "_high")]
    quality = {"k": k, "confidence": 0.9, **dict(zip(names, shares * 2, strict=True))}
    columns = {name: np.array([quality[name]]) for name in names}
    assert ExpectedQuality(k, 0.9, **columns).words(0) == words
    answers = made_up() | {"predict": an_answer(a_prediction(LABELS) | {"quality": quality})}
    opened = open_served(demo_server, answers=answers)
    opened.ask(TEXT)
    expect(opened.page.locator(".quality")).to_have_text(
        f"{words} For 90 % of inputs like those of its calibration, the number is in this range."
    )


@pytest.mark.parametrize("p_value", [0.01, 0.5])
def test_answer_without_expected_quality_or_out_of_distribution_then_nothing_is_said_of_it(
    demo_server: Server, open_served: OpenPage, p_value: float
) -> None:
    names = [f"{kind}{end}" for kind in ("precision", "recall") for end in ("", "_low", "_high")]
    quality = {"k": 5, "confidence": 0.9, **dict.fromkeys(names, 0.5)} if p_value < 0.05 else None
    answers = made_up() | {"predict": an_answer(a_prediction(LABELS, p_value) | {"quality": quality})}
    opened = open_served(demo_server, answers=answers)
    opened.ask(TEXT)
    expect(opened.page.locator(".summary")).to_have_count(1)
    expect(opened.page.locator(".quality")).to_have_count(0)


@pytest.mark.parametrize(
    ("probabilities", "said"),
    [
        ([0.05, 0.03], "No label is more likely right than wrong: the most probable has 5 %."),
        ([0.97, 0.03], "It is nearly sure of each label below, that it is right or that it is wrong."),
        (
            [0.3, 0.03],
            "No label is more likely right than wrong: the most probable has 30 %. It is uncertain about one"
            " label that could be right or wrong (data uncertainty).",
        ),
    ],
)
def test_improbable_labels_then_the_summary_does_not_call_them_certain(
    demo_server: Server, open_served: OpenPage, probabilities: list[float], said: str
) -> None:
    labels = [a_label(f"label {p}", [p] * 10) for p in probabilities]
    opened = open_served(demo_server, answers=made_up() | {"predict": an_answer(a_prediction(labels))})
    opened.ask(TEXT)
    summary = opened.page.locator(".summary").text_content() or ""
    assert summary.split(". ", 1)[1] == said


def test_why_of_a_long_text_then_all_of_it_can_be_read_with_its_words_marked(
    demo_server: Server, open_served: OpenPage
) -> None:
    text = "word " * 400 + "player at the end"
    said = [{"word": "player", "effect": 1.0, "disagreement": 0.0}]
    explanation = {
        "label": "sure",
        "probability": 0.9,
        "votes": [0.9],
        "speaks_for": said,
        "speaks_against": [],
    }
    opened = open_served(demo_server, answers=made_up() | {"explain": explanation})
    opened.ask(text)
    opened.row("sure").get_by_role("button").click()
    marked = opened.row("sure").locator(".marked")
    expect(marked).to_have_text(text)
    assert marked.locator("mark").all_text_contents() == ["player"]
    # It scrolls in a box that the keyboard reaches.
    assert marked.evaluate("(box) => box.scrollHeight > box.clientHeight")
    expect(marked).to_have_attribute("tabindex", "0")


def test_empty_text_then_the_page_says_what_to_do(demo_server: Server, open_served: OpenPage) -> None:
    opened = open_served(demo_server)
    opened.page.get_by_role("button", name="Suggest labels").click()
    expect(opened.page.locator("#ask-trouble")).to_have_text("Paste a text first.")
    opened.ask(TEXT)
    expect(opened.page.locator("#ask-trouble")).to_be_hidden()


def test_more_labels_of_a_model_without_policy_then_less_probable_ones_follow(
    demo_server: Server, open_served: OpenPage
) -> None:
    model = a_model(id=demo_server.service.slot.current.id, policy=None)
    opened = open_served(demo_server, answers={"model": model})
    opened.ask(TEXT)
    expect(opened.page.locator(".found")).to_have_count(15)
    opened.page.get_by_role("button", name="Show less probable labels").click()
    expect(opened.page.locator(".found")).to_have_count(50)


# --- what is to be guaranteed ---


def decided(p: float, rank: int, percent: int, listed: int) -> str:
    policy = a_policy()
    least = next(of["accept_from"] for of in reversed(policy["wrong"]) if 100 * of["share"] <= percent + 1e-9)
    if least is not None and p >= least and rank < policy["most"]:
        return "accept"
    return "review" if rank < listed else "reject"


def test_slider_and_list_then_labels_move_between_accept_review_and_reject(
    demo_server: Server, open_served: OpenPage
) -> None:
    opened = open_served(demo_server, answers=made_up())
    opened.ask(TEXT)
    slider = opened.page.get_by_role("slider", name="How many accepted labels may be wrong?")
    numbers = opened.page.get_by_label("How many labels do you look at?")
    assert (slider.input_value(), numbers.input_value()) == ("10", "10")
    seen = set()
    for listed in ("1", "3", "5"):
        numbers.select_option(listed)
        slider.focus()
        opened.page.keyboard.press("Home")
        for percent in range(5, 21):
            assert slider.input_value() == str(percent)
            groups: dict[str, list[str]] = {name: [] for name in ("accept", "review", "reject")}
            for rank, one in enumerate(LABELS):
                groups[decided(one["probability"], rank, percent, int(listed))].append(one["label"])
            for name, labels in groups.items():
                assert opened.group(name) == labels[: 5 if name == "reject" else None]
            sums = [len(labels) for labels in groups.values()]
            sums[2] += 1234 - len(LABELS)  # what the server does not list is rejected
            spoken = f"{percent} %: {sums[0]} accepted, {sums[1]} to review, {sums[2]:,} rejected"
            expect(slider).to_have_attribute("aria-valuetext", spoken)
            assert opened.page.locator(".sum").all_text_contents() == [f"{n:,}" for n in sums]
            seen.add(tuple(sums))
            opened.page.keyboard.press("ArrowRight")
        # The choices end there.
        assert slider.input_value() == "20"
    assert len(seen) > 5
    # The next text is judged by the same choices.
    opened.ask("another text")
    assert (slider.input_value(), numbers.input_value()) == ("20", "5")


def test_label_on_a_threshold_then_it_is_sorted_as_the_server_does(
    demo_server: Server, open_served: OpenPage
) -> None:
    # JSON has as few digits of a probability as tell it from its neighbours of 32 bits.
    shares = np.linspace(0.5, 0.6, 100, dtype=np.float32)
    threshold = next(one for one in shares if float(str(one)) < float(one))
    label = a_label("edge", [0.5]) | {"probability": float(str(threshold))}
    policy = a_policy() | {"wrong": [{"share": 0.1, "accept_from": float(threshold), "words": "so much"}]}
    answers = made_up(policy=policy) | {"predict": an_answer(a_prediction([label]))}
    opened = open_served(demo_server, answers=answers)
    opened.ask(TEXT)
    assert opened.group("accept") == ["edge"]


def test_choices_then_what_is_guaranteed_is_said_in_the_words_of_the_server(
    demo_server: Server, open_served: OpenPage
) -> None:
    opened = open_served(demo_server, answers=made_up())
    opened.ask(TEXT)
    expect(opened.page.locator("#wrong-guarantee")).to_have_text("At most 10 %, <b>surely</b>.")
    expect(opened.page.locator("#review-guarantee")).to_have_text("The 10 best contain much.")
    expect(opened.page.locator(".limits")).to_have_text("This holds for texts like those seen.")
    opened.page.locator("#wrong-at-most").fill("14")
    expect(opened.page.locator("#wrong-guarantee")).to_have_text("At most 13 %, <b>surely</b>.")
    opened.page.locator("#review-at-most").select_option("3")
    expect(opened.page.locator("#review-guarantee")).to_have_text("The 3 best contain much.")


def test_nothing_that_can_be_accepted_then_the_list_is_there_without_a_slider(
    demo_server: Server, open_served: OpenPage
) -> None:
    opened = open_served(demo_server, answers=made_up(policy=a_policy() | {"wrong": []}))
    opened.ask(TEXT)
    assert opened.page.get_by_role("slider").count() == 0
    expect(opened.page.locator("#wrong-guarantee")).to_contain_text("Nothing is accepted")
    assert opened.group("accept") == []
    assert opened.group("review") == NAMES[:10]


@pytest.mark.parametrize(("percent", "listed"), [(5, 5), (10, 10), (25, 20), (50, 50)])
def test_choices_then_the_page_sorts_labels_as_the_library_does(
    demo_server: Server, open_served: OpenPage, percent: int, listed: int
) -> None:
    opened = open_served(demo_server)
    opened.ask(TEXT)
    opened.page.locator("#wrong-at-most").fill(str(percent))
    opened.page.locator("#review-at-most").select_option(str(listed))
    own = demo_server.model.decide([TEXT], wrong_at_most=percent / 100, review_at_most=listed, k=0)[0]
    known = len(demo_server.model.classes_)
    sums = [len(own.accept), len(own.review), known - len(own.accept) - len(own.review)]
    assert opened.page.locator(".sum").all_text_contents() == [str(n) for n in sums]
    for name, labels, few in (("accept", own.accept, 15), ("review", own.review, 15)):
        assert opened.group(name) == labels[:few]
        rest = opened.page.locator(f".group.{name} .rest .more:visible")
        hidden = len(labels) - few
        assert rest.all_text_contents() == ([f"{hidden} more to {name}"] if hidden > 0 else [])


def test_more_labels_by_keyboard_then_the_first_of_them_has_the_focus(
    demo_server: Server, open_served: OpenPage
) -> None:
    opened = open_served(demo_server)
    opened.ask(TEXT)
    opened.page.locator("#review-at-most").select_option("50")
    opened.page.get_by_role("button", name="more to review").press("Enter")
    focused = opened.page.locator(".found:focus .found-name")
    expect(focused).to_have_text(opened.group("review")[15])


def test_policy_then_the_server_is_asked_for_all_that_can_be_looked_at(
    demo_server: Server, open_served: OpenPage
) -> None:
    sent = []

    def answer(route: Any) -> None:
        sent.append(route.request.post_data_json["decide"])
        route.fulfill(json=an_answer(a_prediction(LABELS)))

    opened = open_served(demo_server, answers=made_up() | {"predict": answer})
    opened.ask(TEXT)
    assert sent == [{"review_at_most": 10}]


def test_model_without_policy_then_labels_are_one_list_and_the_page_says_why(
    demo_server: Server, open_served: OpenPage
) -> None:
    opened = open_served(demo_server, answers=made_up(policy=None))
    opened.ask(TEXT)
    assert opened.page.locator("#wrong-at-most").count() == 0
    assert opened.page.locator(".group .found-name").all_text_contents() == NAMES
    expect(opened.page.locator(".goals")).to_contain_text("hedgerow calibrate")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("refused", "A newer model was refused: worse: <b>ndcg@5</b> falls."),
        ("failed", "A newer model does not answer yet: worse: <b>ndcg@5</b> falls."),
        ("rolled-back", "A newer model was rolled back."),
        ("promoted", ""),
    ],
)
def test_newer_model_that_does_not_answer_then_the_page_says_why(
    demo_server: Server, open_served: OpenPage, state: str, said: str
) -> None:
    promotion = {"state": state, "words": "worse: <b>ndcg@5</b> falls"}
    opened = open_served(demo_server, answers=made_up(promotion=promotion))
    shown = opened.page.locator("#model").text_content()
    assert shown.endswith(said)
    assert ("newer model" in shown) == bool(said)


def test_model_that_changed_meanwhile_then_the_new_policy_counts(
    demo_server: Server, open_served: OpenPage
) -> None:
    opened = open_served(demo_server, answers=made_up(id="before", policy=None))
    opened.page.unroute(demo_server.url + "model")
    opened.page.route(demo_server.url + "model", lambda route: route.fulfill(json=a_model()))
    opened.ask(TEXT)
    assert opened.group("accept") == ["sure"]


def test_model_that_may_decide_no_longer_then_it_is_asked_again_and_shows_one_list(
    demo_server: Server, open_served: OpenPage
) -> None:
    def answer(route: Any) -> None:
        if "decide" in route.request.post_data_json:
            route.fulfill(status=422, json={"error": {"code": "no_policy", "message": "learn first"}})
        else:
            route.fulfill(json=an_answer(a_prediction(LABELS), "after"))

    opened = open_served(demo_server, answers=made_up() | {"predict": answer})
    opened.page.unroute(demo_server.url + "model")
    now = a_model(id="after", policy=None)
    opened.page.route(demo_server.url + "model", lambda route: route.fulfill(json=now))
    opened.ask(TEXT)
    assert opened.page.locator("#wrong-at-most").count() == 0
    assert opened.page.locator(".group .found-name").all_text_contents() == NAMES
    opened.refused(422)


def test_model_that_changes_all_the_time_then_nothing_is_guaranteed_for_another(
    demo_server: Server, open_served: OpenPage
) -> None:
    answers = made_up() | {"predict": an_answer(a_prediction(LABELS), "another")}
    opened = open_served(demo_server, answers=answers)
    opened.page.locator("#text").fill(TEXT)
    opened.page.get_by_role("button", name="Suggest labels").click()
    expect(opened.page.locator("#ask-trouble")).to_contain_text("The model is being changed.")
    expect(opened.page.locator("#answer")).to_be_hidden()


def test_model_that_searches_otherwise_than_it_learned_then_no_thresholds_are_offered(
    demo_model: Demo, serve_model: Serve, open_served: OpenPage, tmp_path: Path
) -> None:
    demo_model[0].save(tmp_path / "demo.hedgerow")
    changed = hedgerow.load(tmp_path / "demo.hedgerow").set_params(beam=1)
    opened = open_served(serve_model(changed))
    opened.ask(TEXT)
    assert opened.page.locator("#wrong-at-most").count() == 0
    expect(opened.page.locator(".goals")).to_contain_text("its search has changed")


# --- review ---


def test_queue_by_keyboard_alone_then_it_is_stored_and_exported(
    demo_model: Demo, serve_model: Serve, open_served: OpenPage, tmp_path: Path
) -> None:
    model, texts = demo_model
    server = serve_model(model)
    server.service.fill_queue(texts[:4])
    waiting = server.service.store.waiting(4)
    opened = open_served(server)
    page = opened.page
    keys = page.keyboard
    while page.evaluate("document.activeElement.hash") != "#review":
        keys.press("Tab")
    keys.press("Enter")
    desk = page.locator(".desk")
    expect(desk).to_be_visible()
    while page.evaluate("!document.activeElement.closest('.desk')"):
        keys.press("Tab")

    # The first is confirmed as the model proposes it.
    expect(page.locator("#item-text")).to_have_text(re.compile(re.escape(waiting[0].text[:60])))
    proposed = [one["label"] for one in waiting[0].prediction["labels"] if one["probability"] >= 0.5]
    assert ticked(desk) == proposed
    expect(desk.get_by_role("button", name="Confirm")).to_be_visible()
    keys.press("Enter")
    expect(page.locator("#item-title")).to_have_text(f"Text {waiting[1].id}")
    expect(page.locator("#review-status")).to_have_text("Confirmed. Three texts left.")

    # The second is corrected: one label changed, one found by name, one that the model does not know.
    first = waiting[1].prediction["labels"][0]
    before = [one["label"] for one in waiting[1].prediction["labels"] if one["probability"] >= 0.5]
    keys.press("1")
    expect(desk.get_by_role("button", name="Save the correction")).to_be_visible()
    keys.press("/")
    keys.type("sound::mi")
    expect(page.get_by_role("option")).to_contain_text(["sound::mixer", "sound::midi", "new to the model"])
    keys.press("ArrowDown")
    keys.press("ArrowUp")
    chosen = page.locator("[role=option][aria-selected=true] bdi").text_content()
    keys.press("Enter")
    keys.press("a")
    keys.type("my <b>own</b> label")
    expect(page.get_by_role("option")).to_have_text(["my <b>own</b> labela label new to the model"])
    keys.press("ArrowDown")
    keys.press("Enter")
    corrected = sorted({*before} ^ {first["label"]} | {chosen, "my <b>own</b> label"})
    assert sorted(ticked(desk)) == corrected
    keys.press("Enter")
    expect(page.locator("#item-title")).to_have_text(f"Text {waiting[2].id}")

    # The third is skipped, and reviewed again.
    keys.press("s")
    expect(page.locator("#item-title")).to_have_text(f"Text {waiting[3].id}")
    keys.press("b")
    expect(page.locator("#item-title")).to_have_text(f"Text {waiting[2].id}")
    assert ticked(desk) == []
    keys.press("2")
    keys.press("Enter")
    expect(page.locator("#item-title")).to_have_text(f"Text {waiting[3].id}")
    keys.press("s")
    expect(page.get_by_role("heading", name="Nothing waits for review")).to_be_visible()
    assert page.locator(".counts dd").all_text_contents() == ["0", "1", "2", "1"]
    expect(page.locator("#badge")).to_be_hidden()

    with page.expect_download() as download:
        page.get_by_role("button", name="Download training data").press("Enter")
    file = tmp_path / "reviewed.jsonl"
    download.value.save_as(file)
    second = waiting[2].prediction["labels"][1]["label"]
    told = {waiting[0].text: proposed, waiting[1].text: corrected, waiting[2].text: [second]}
    # As `hedgerow fit` reads it.
    part = read_part(file)
    assert part.texts is not None
    assert part.label_names is not None
    names = [[part.label_names[column] for column in row] for row in part.Y.tolil().rows]
    assert dict(zip(part.texts, names, strict=True)) == {
        text: sorted(labels) for text, labels in told.items()
    }


def ticked(desk: Locator) -> list[str]:
    return desk.locator(".choice:has(input:checked) bdi").all_text_contents()


def a_queue(*predictions: list[dict[str, Any]]) -> dict[str, Any]:
    items = [
        {"id": i, "text": f"text {i}", "knowledge": 0.1, "model": "m", "prediction": a_prediction(labels)}
        for i, labels in enumerate(predictions, 1)
    ]
    return {"queue?limit=20": {"items": items}}


def test_text_without_a_ticked_label_then_enter_asks_once_more(
    demo_server: Server, open_served: OpenPage
) -> None:
    sent = []

    def keep(route: Any) -> None:
        sent.append(route.request.post_data_json)
        route.fulfill(json={"id": 1, "state": "confirmed"})

    answers = made_up() | a_queue([a_label("no", [0.1] * 10)]) | {"queue/1": keep}
    page = open_served(demo_server, "#review", answers=answers).page
    page.locator(".desk").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".desk .trouble")).to_contain_text("No label is ticked")
    assert sent == []
    page.keyboard.press("Enter")
    expect(page.locator("#review-status")).to_contain_text("Confirmed")
    assert sent == [{"state": "confirmed", "labels": []}]


def review_of_three(demo_server: Server, open_served: OpenPage) -> tuple[Page, list[str]]:
    """Three texts under review, and the paths of those that were decided on."""
    decided_on: list[str] = []

    def keep(route: Any) -> None:
        decided_on.append(route.request.url.removeprefix(demo_server.url))
        route.fulfill(json={"id": 1, "state": "skipped"})

    answers = made_up() | a_queue(LABELS, LABELS, LABELS) | {f"queue/{i}": keep for i in (1, 2, 3)}
    page = open_served(demo_server, "#review", answers=answers).page
    page.locator(".desk").focus()
    return page, decided_on


@pytest.mark.parametrize("key", ["s", "Enter"])
def test_key_twice_at_once_then_no_text_is_passed_over(
    demo_server: Server, open_served: OpenPage, key: str
) -> None:
    page, decided_on = review_of_three(demo_server, open_served)
    page.locator(".desk").evaluate(
        "(desk, key) => [1, 2].forEach(() =>"
        " desk.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true })))",
        key,
    )
    expect(page.locator("#item-title")).to_have_text("Text 2")
    page.keyboard.press(key)
    expect(page.locator("#item-title")).to_have_text("Text 3")
    assert decided_on == ["queue/1", "queue/2"]


def test_key_that_is_held_down_then_it_counts_once(demo_server: Server, open_served: OpenPage) -> None:
    page, decided_on = review_of_three(demo_server, open_served)
    page.keyboard.down("s")
    expect(page.locator("#item-title")).to_have_text("Text 2")
    page.keyboard.down("s")
    page.keyboard.up("s")
    page.keyboard.press("s")
    expect(page.locator("#item-title")).to_have_text("Text 3")
    assert decided_on == ["queue/1", "queue/2"]


def test_keys_outside_the_text_under_review_then_nothing_is_decided(
    demo_server: Server, open_served: OpenPage
) -> None:
    page = open_served(demo_server, "#review", answers=made_up() | a_queue(LABELS)).page
    page.locator(".desk").wait_for()
    before = ticked(page.locator(".desk"))
    page.locator("#add-texts summary").click()
    page.locator("#new-texts").press_sequentially("s1b/")
    page.locator("#new-texts").fill("")
    page.locator("#picker").press_sequentially("s1b")
    expect(page.locator("#item-title")).to_have_text("Text 1")
    assert ticked(page.locator(".desk")) == before


def test_label_search_whose_answer_is_late_then_nothing_of_the_one_before_is_chosen(
    demo_server: Server, open_served: OpenPage
) -> None:
    late: list[Any] = []
    answers = made_up() | a_queue(LABELS)
    answers["labels?query=a&limit=8"] = {"total": 1, "labels": [{"label": "apple", "count": 3}]}
    answers["labels?query=ab&limit=8"] = lambda route: late.append(route)
    page = open_served(demo_server, "#review", answers=answers).page
    page.locator("#picker").press_sequentially("a")
    expect(page.get_by_role("option").first).to_have_text("apple3 examples")
    with page.expect_request(re.compile("query=ab")):
        page.locator("#picker").press_sequentially("b")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert "apple" not in ticked(page.locator(".desk"))
    late[0].fulfill(json={"total": 1, "labels": [{"label": "abacus", "count": None}]})
    expect(page.get_by_role("option").first).to_have_text("abacus")
    page.keyboard.press("Enter")
    assert "abacus" in ticked(page.locator(".desk"))


def test_queue_then_it_says_on_what_the_members_disagree(demo_server: Server, open_served: OpenPage) -> None:
    page = open_served(demo_server, "#review", answers=made_up() | a_queue(LABELS)).page
    expect(page.locator(".desk .why")).to_have_text(
        "The members disagree most on disputed: they put its probability between 0 % and 90 %."
    )


def test_texts_and_files_added_then_they_wait(
    demo_model: Demo, serve_model: Serve, open_served: OpenPage, tmp_path: Path
) -> None:
    server = serve_model(demo_model[0])
    page = open_served(server, "#review").page
    expect(page.get_by_role("heading", name="Nothing waits for review")).to_be_visible()
    page.locator("#new-texts").fill("an address book\n\n  a game of chess  \n")
    page.get_by_role("button", name="Add to the queue").click()
    expect(page.locator("#badge")).to_have_text("2 waiting")
    expect(page.locator(".desk")).to_be_visible()
    file = tmp_path / "texts.jsonl"
    file.write_text("".join(json.dumps({"text": f"text number {i}"}) + "\n" for i in range(70)))
    page.locator("#new-file").set_input_files(file)
    expect(page.locator("#badge")).to_have_text("72 waiting")
    texts = {item.text for item in server.service.store.waiting(100)}
    assert texts == {"an address book", "a game of chess", *(f"text number {i}" for i in range(70))}
    file.write_text("no json\n")
    page.locator("#new-file").set_input_files(file)
    expect(page.locator("#review-trouble")).to_contain_text("texts.jsonl is not JSONL")


def test_txt_file_then_it_is_one_text_and_its_lines_are_several_only_when_asked(
    demo_model: Demo, serve_model: Serve, open_served: OpenPage, tmp_path: Path
) -> None:
    server = serve_model(demo_model[0])
    page = open_served(server, "#review").page
    file = tmp_path / "letter.txt"
    file.write_text("an address book\n\nwith a game of chess\n")
    expect(page.locator("#add-texts")).to_have_attribute("open", "")  # as nothing waits
    page.locator("#new-file").set_input_files(file)
    expect(page.locator("#badge")).to_have_text("1 waiting")
    assert [item.text for item in server.service.store.waiting(9)] == [
        "an address book\n\nwith a game of chess"
    ]
    page.get_by_role("checkbox", name="one text per line of a .txt").check()
    page.locator("#new-file").set_input_files(file)
    expect(page.locator("#badge")).to_have_text("3 waiting")
    texts = {item.text for item in server.service.store.waiting(9)}
    assert texts == {"an address book\n\nwith a game of chess", "an address book", "with a game of chess"}


def test_file_in_another_encoding_then_nothing_is_added_and_the_page_says_so(
    demo_model: Demo, serve_model: Serve, open_served: OpenPage, tmp_path: Path
) -> None:
    server = serve_model(demo_model[0])
    page = open_served(server, "#review").page
    for name in ("old.txt", "old.jsonl"):
        file = tmp_path / name
        file.write_bytes(b'{"text": "a good text"}\n{"text": "caf\xe9"}\n')
        page.locator("#new-file").set_input_files(file)
        expect(page.locator("#review-trouble")).to_have_text(
            f"{name} is not UTF-8. Convert it, and add it again."
        )
    assert server.service.store.counts().waiting == 0


def test_ids_of_a_file_then_they_come_back_with_the_download(
    demo_model: Demo, serve_model: Serve, open_served: OpenPage, tmp_path: Path
) -> None:
    page = open_served(serve_model(demo_model[0]), "#review").page
    file = tmp_path / "texts.jsonl"
    records = [
        {"id": "a-1", "text": "an address book"},
        {"text": "no id"},
        {"id": 7, "text": "a game of chess"},
    ]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    page.locator("#new-file").set_input_files(file)
    expect(page.locator("#badge")).to_have_text("3 waiting")
    for left in ("2 waiting", "1 waiting", "0 waiting"):
        page.get_by_role("button", name=re.compile("Confirm")).click()
        confirm = page.get_by_role("alert").filter(has_text="No label is ticked")
        if confirm.is_visible():
            page.get_by_role("button", name=re.compile("Confirm")).click()
        expect(page.locator("#badge")).to_contain_text(left)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download training data").click()
    download.value.save_as(tmp_path / "reviewed.jsonl")
    part = read_part(tmp_path / "reviewed.jsonl")
    assert dict(zip(part.texts or [], part.ids or [], strict=True)) == {
        "an address book": "a-1",
        "no id": None,
        "a game of chess": "7",
    }


def test_id_of_a_file_that_a_browser_cannot_keep_then_the_file_is_refused(
    demo_model: Demo, serve_model: Serve, open_served: OpenPage, tmp_path: Path
) -> None:
    server = serve_model(demo_model[0])
    page = open_served(server, "#review").page
    file = tmp_path / "texts.jsonl"
    for id in ("12345678901234567891", "1.5", "[1]", "true"):
        file.write_text(f'{{"text": "one"}}\n{{"id": {id}, "text": "two"}}\n')
        page.locator("#new-file").set_input_files(file)
        expect(page.locator("#review-trouble")).to_contain_text("texts.jsonl has in line 2 an id that is")
        page.evaluate("document.getElementById('review-trouble').textContent = ''")
    assert server.service.store.counts().waiting == 0


def test_asked_text_put_into_the_queue_then_it_is_counted_and_shown(
    demo_model: Demo, serve_model: Serve, open_served: OpenPage
) -> None:
    opened = open_served(serve_model(demo_model[0]))
    opened.ask(TEXT)
    opened.page.get_by_role("button", name="Put this text into the review queue").click()
    expect(opened.page.locator("#badge")).to_have_text("1 waiting")
    opened.page.get_by_role("link", name="Review").click()
    expect(opened.page.locator("#item-text")).to_have_text(TEXT)


def test_asked_text_with_an_id_then_the_reviewer_and_the_queue_have_it(
    demo_model: Demo, serve_model: Serve, open_served: OpenPage
) -> None:
    server = serve_model(demo_model[0])
    opened = open_served(server)
    opened.page.get_by_label("Id, if it has one").fill(" <i>7</i> ")
    opened.ask(TEXT)
    opened.page.get_by_role("button", name="Put this text into the review queue").click()
    expect(opened.page.locator("#badge")).to_have_text("1 waiting")
    (item,) = server.service.store.waiting(2)
    assert (item.text, item.text_id) == (TEXT, "<i>7</i>")
    expect(opened.page.locator("#text-id")).to_have_value("")
    opened.page.get_by_role("link", name="Review").click()
    expect(opened.page.locator("#item-title")).to_have_text(f"Text {item.id} id <i>7</i>")


# --- trouble ---


def test_server_with_token_then_the_page_asks_for_it_and_keeps_it_for_the_tab(
    demo_model: Demo, serve_model: Serve, open_served: OpenPage
) -> None:
    server = serve_model(demo_model[0], token=TOKEN)
    opened = open_served(server)
    page = opened.page
    dialog = page.get_by_role("dialog", name="This server asks for a token")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("textbox", name="Token").fill("not the right one")
    page.keyboard.press("Enter")
    expect(dialog.locator(".trouble")).to_have_text("The server does not accept this token.")
    page.get_by_role("textbox", name="Token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    opened.ask(TEXT)
    page.reload()
    opened.ask(TEXT)
    expect(dialog).to_be_hidden()
    assert page.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    other = open_served(server)
    expect(other.page.get_by_role("dialog")).to_be_visible()
    opened.refused(401)
    other.refused(401)


@pytest.mark.parametrize(
    ("status", "headers", "words"),
    [
        (503, {"Retry-After": "3"}, "The server is busy. Try again in 3 seconds."),
        (429, {}, "The server is busy. Try again in a moment."),
        (413, {}, "the reason <b>told</b>"),
        (502, {"Content-Type": "text/html"}, "The server answered 502."),
    ],
)
def test_refusal_then_the_page_says_why_and_goes_on(
    demo_server: Server, open_served: OpenPage, status: int, headers: dict[str, str], words: str
) -> None:
    body = (
        "<html>"
        if status == 502
        else json.dumps({"error": {"code": "x", "message": "the reason <b>told</b>"}})
    )
    answer = lambda route: route.fulfill(status=status, headers=headers, body=body)  # noqa: E731
    opened = open_served(demo_server, answers={"predict": answer})
    opened.page.locator("#text").fill(TEXT)
    opened.page.get_by_role("button", name="Suggest labels").click()
    expect(opened.page.locator("#ask-trouble")).to_have_text(words)
    opened.page.unroute(demo_server.url + "predict")
    opened.ask(TEXT)
    expect(opened.page.locator("#ask-trouble")).to_be_hidden()
    opened.refused(status)


def test_server_that_is_gone_then_the_page_says_so(demo_server: Server, open_served: OpenPage) -> None:
    opened = open_served(demo_server, answers={"predict": lambda route: route.abort("connectionrefused")})
    opened.page.locator("#text").fill(TEXT)
    opened.page.get_by_role("button", name="Suggest labels").click()
    expect(opened.page.locator("#ask-trouble")).to_have_text(
        "The server does not answer. Is it still running?"
    )
    opened.problems[:] = [one for one in opened.problems if "ERR_CONNECTION_REFUSED" not in one]


def test_model_of_features_then_columns_and_values_are_asked_for(
    serve_model: Serve, open_served: OpenPage
) -> None:
    generator = np.random.default_rng(0)
    X = sp.random(60, 30, 0.3, "csr", np.float32, rng=generator)
    Y = sp.csr_array(sp.random(60, 8, 0.3, "csr", rng=generator) > 0).astype(np.float32)
    model = HedgerowClassifier(method="bagging", members=3, random_state=0).fit(X, Y)
    opened = open_served(serve_model(model))
    opened.page.get_by_role("textbox", name="Features").fill("3:0.5, twelve")
    opened.page.get_by_role("button", name="Suggest labels").click()
    expect(opened.page.locator("#ask-trouble")).to_contain_text("“twelve” is not column:value")
    opened.ask("7:1 3:0.5")
    row = sp.csr_array((np.float32([0.5, 1]), [3, 7], [0, 2]), shape=(1, 30))
    best = model.predict_uncertain(row, k=8).labels[0].tolist()
    assert opened.page.locator(".found-name").all_text_contents() == [str(label) for label in best]
    expect(opened.page.get_by_role("link", name="Review")).to_be_hidden()


# --- hostile ---


@pytest.fixture(scope="module")
def hostile_model() -> HedgerowTextClassifier:
    labels = [*HOSTILE_LABELS, "a" * 3000, "long words " * 300]
    texts = [f"{label[:300]} word{i}" for i, label in enumerate(labels)]
    model = HedgerowTextClassifier(method="bagging", members=3, random_state=0, min_count=1)
    return model.fit(3 * texts, 3 * [[label] for label in labels])


@pytest.fixture(scope="module")
def hostile_server(
    hostile_model: HedgerowTextClassifier, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    with serving(hostile_model, tmp_path_factory.mktemp("hostile")) as server:
        yield server


LONG = "<i>" + "".join(f"word{i} " for i in range(15)) + "ab😀 " * 2400 + "עברית"


@pytest.mark.parametrize(
    ("text", "width"),
    [(LONG, 1280), *((text, 320) for text in (*HOSTILE, LONG))],
    ids=range(len(HOSTILE) + 2),
)
def test_hostile_labels_and_texts_then_they_are_text_and_nothing_runs(
    hostile_server: Server, open_served: OpenPage, text: str, width: int
) -> None:
    server = hostile_server
    for item in server.service.store.waiting(100):
        server.service.store.decide(item.id, "skipped", [])
    text = text.replace("\x00", "").replace("\ud800", "\ufffd")
    server.service.fill_queue([text])
    opened = open_served(server, width=width)
    page = opened.page
    opened.ask(text)
    for button in page.get_by_role("button", name="Why?").all():
        button.click()
    expect(page.locator(".sides")).to_have_count(page.locator(".found").count())
    shown = page.locator(".found-name bdi").all_text_contents()
    known = {cut(str(label)) for label in server.model.classes_}
    assert shown
    assert {cut(label) for label in shown} <= known
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("link", name="Review").click()
    expect(page.locator(".desk")).to_be_visible()
    if page.get_by_role("button", name="Show all of it").count():
        page.get_by_role("button", name="Show all of it").click()
    assert page.locator("#item-text").text_content() == text
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.locator("#picker").fill("<")
    expect(page.get_by_role("option").first).to_be_visible()
    assert page.evaluate("window.hacked") is None
    assert page.locator("main img, main script, main style, main iframe, main i").count() == 0


def cut(label: str) -> str:
    # What is longer is shortened, and JavaScript counts halves of pairs.
    return label.replace("\x00", "")[:90]


def test_page_then_a_script_that_is_not_its_own_does_not_run(
    demo_server: Server, open_served: OpenPage
) -> None:
    opened = open_served(demo_server)
    with opened.page.expect_event("requestfailed") as failed:
        opened.page.evaluate(
            "() => { const s = document.createElement('script'); s.textContent = 'window.hacked = 1';"
            " document.body.append(s);"
            " const i = new Image(); i.src = 'https://example.org/x.png'; document.body.append(i) }"
        )
    assert failed.value.failure == "csp"
    assert opened.page.evaluate("window.hacked") is None
    assert any("script-src" in problem for problem in opened.problems)
    opened.problems.clear()


# --- for all ---


def fill(opened: Any, part: str) -> None:
    """Bring much of the page to light."""
    page: Page = opened.page
    if part == "#ask":
        page.get_by_role("button", name=re.compile("OOD")).click()
        expect(page.locator(".banner.odd")).to_be_visible()
        page.get_by_role("button", name="Why?").first.click()
        expect(page.locator(".sides")).to_be_visible()
        page.get_by_role("button", name="Put this text into the review queue").click()
        expect(page.locator("#badge")).to_be_visible()
        for summary in page.locator("#ask summary").all():
            summary.click()
    else:
        page.locator("#add-texts summary").click()
        page.locator(".desk").press("Enter")
        expect(page.locator("#item-title")).to_have_text("Text 2")
        page.locator("#picker").fill("sound")
        expect(page.get_by_role("option").first).to_be_visible()


def filled(part: str, server: Server) -> dict[str, Any]:
    # Nothing is ticked in the second text, and the queue does not change under other tests.
    kept = {"queue/1": {"id": 1, "state": "confirmed"}}
    counts = {"queue/counts": {"waiting": 12, "confirmed": 3, "corrected": 1, "skipped": 0}}
    if part == "#review":
        return a_queue(LABELS, LABELS[::-1]) | kept | counts
    model = a_model(labels=535, id=server.service.slot.current.id)
    return {"queue": {"ids": [1]}, "model": model} | counts


@pytest.mark.parametrize("part", ["#ask", "#review"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_page_then_the_checker_of_accessibility_finds_nothing(
    demo_server: Server, open_served: OpenPage, width: int, scheme: str, part: str
) -> None:
    opened = open_served(demo_server, part, width, scheme, filled(part, demo_server))
    fill(opened, part)
    assert violations(opened.page, scheme) == []


@pytest.mark.parametrize("part", ["#ask", "#review"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_then_its_contrast_is_enough(
    demo_server: Server, open_served: OpenPage, scheme: str, part: str
) -> None:
    opened = open_served(demo_server, part, 1280, scheme, filled(part, demo_server))
    fill(opened, part)
    pairs = opened.page.evaluate(TEXT_COLOURS)
    assert len(pairs) > 12
    paper = luminance(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert paper > 0.8 if scheme == "light" else paper < 0.05
    # What cannot be pressed may be pale.
    assert [pair for pair in pairs if contrast(*pair[:2]) < 4.5] == []


@pytest.mark.parametrize("part", ["#ask", "#review"])
@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_page_then_it_does_not_scroll_sideways(
    demo_server: Server, open_served: OpenPage, width: int, part: str
) -> None:
    opened = open_served(demo_server, part, width, answers=filled(part, demo_server))
    fill(opened, part)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("part", ["#ask", "#review"])
def test_tab_then_every_control_is_reached_and_seen(
    demo_server: Server, open_served: OpenPage, part: str
) -> None:
    opened = open_served(demo_server, part, answers=filled(part, demo_server))
    fill(opened, part)
    page = opened.page
    page.evaluate("document.activeElement.blur(); window.scrollTo(0, 0)")
    page.locator("body").press("Escape")
    controls = page.locator(
        "a[href]:visible, button:enabled:visible, input:visible, select:visible, textarea:visible,"
        " summary:visible"
    ).count()
    reached = set()
    for _ in range(controls + 5):
        page.keyboard.press("Tab")
        reached.add(
            page.evaluate(
                "(() => { const e = document.activeElement; e.number ??= Math.random();"
                " const ring = e.closest('.file') ?? e;"
                " return e === document.body ? null : e.number + getComputedStyle(ring).outlineStyle })()"
            )
        )
    reached.discard(None)
    assert len(reached) == controls
    assert all(str(one).endswith("solid") for one in reached)


def test_theme_button_then_the_page_turns_dark_and_stays_so(
    demo_server: Server, open_served: OpenPage
) -> None:
    opened = open_served(demo_server)

    def paper() -> float:
        return luminance(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))

    opened.page.get_by_role("button", name="Dark").click()
    assert paper() < 0.05
    opened.page.reload()
    opened.page.get_by_role("button", name="Light").wait_for()
    assert paper() < 0.05


def test_page_then_all_of_it_weighs_less_than_300_kilobytes(
    demo_server: Server, open_served: OpenPage
) -> None:
    opened = open_served(demo_server, "#review")
    opened.page.wait_for_load_state("networkidle")
    weights = opened.page.evaluate(
        "[...performance.getEntriesByType('navigation'), ...performance.getEntriesByType('resource')]"
        ".map((one) => one.transferSize)"
    )
    assert len(weights) > 15
    assert 30_000 < sum(weights) < 300_000
