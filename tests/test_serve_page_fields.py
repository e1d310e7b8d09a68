"""The served page of a model with fields, in a browser."""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import expect
from report_browser import violations
from serve_browser import OpenPage
from test_fields import LABELS, NEW, RECORDS, fitted
from test_serve_page import Serve

from hedgerow import HedgerowTextClassifier, explain
from hedgerow.data.sample import load_sample


def _is_moved(model: HedgerowTextClassifier, record: dict[str, str], label: str) -> bool:
    return bool((abs(explain(model, record, label).effect) > 0.1).any())


def test_model_with_fields_then_each_has_a_box_and_words_name_theirs(
    serve_model: Serve, open_served: OpenPage, tmp_path: Path
) -> None:
    server = serve_model(fitted(language="en", ngrams=(1, 1)))
    opened = open_served(server)
    page = opened.page
    record = RECORDS[0]
    page.get_by_label("Title").fill(record["title"])
    page.get_by_label("Abstract").fill(record["abstract"])
    page.get_by_role("button", name="Suggest labels").click()
    expect(page.locator(".found").first).to_be_visible()
    best = server.model.top([record], k=3).labels[0].tolist()
    assert page.locator(".found-name").all_text_contents()[:3] == best
    labels = server.model.top([record], k=10).labels[0].tolist()
    moved = [label for label in labels if _is_moved(server.model, record, label)]
    opened.row(moved[0]).get_by_role("button", name="Why?").click()
    expect(page.locator(".why-words .word").first).to_be_visible()
    fields = page.locator(".why-words .word .hint").all_text_contents()
    assert fields
    assert {name.strip() for name in fields} <= {"title", "abstract"}
    assert page.locator(".why-words mark").count() > 0
    assert violations(page, "light") == []
    page.get_by_role("button", name="Put this text into the review queue").click()
    expect(page.locator(".to-queue .hint")).to_have_text("Added to the review queue.")
    page.get_by_role("link", name="Review").click()
    expect(page.locator("#item-text")).to_contain_text(record["abstract"][:40])
    file = tmp_path / "more.jsonl"
    file.write_text("\n".join(json.dumps(one) for one in NEW[1:3]))
    if not page.locator("#add-texts").get_attribute("open"):
        page.locator("#add-texts summary").click()
    page.locator("#new-file").set_input_files(file)
    expect(page.locator("#review-status")).to_have_text("Two texts added.")
    waiting = [item.text for item in server.service.store.waiting(9)]
    assert all(one in waiting for one in NEW[1:3])


def test_reloaded_model_with_other_fields_then_boxes_change_and_keep_what_was_written(
    serve_model: Serve, open_served: OpenPage, tmp_path: Path
) -> None:
    server = serve_model(fitted(ngrams=(1, 1)))
    opened = open_served(server)
    page = opened.page
    record = RECORDS[0]
    page.get_by_label("Title").fill(record["title"])
    page.get_by_label("Abstract").fill(record["abstract"])

    def replaced_by(model: HedgerowTextClassifier) -> None:
        model.save(tmp_path / "served.hedgerow", overwrite=True)
        assert page.request.post(f"{server.url}reload", data={}).ok
        page.get_by_role("button", name="Suggest labels").click()
        expect(page.locator("#ask-trouble")).to_contain_text("Another model is served now.")

    renamed = [{"abstract": one["abstract"], "keywords": one["title"]} for one in RECORDS]
    fields = HedgerowTextClassifier(fields=["abstract", "keywords"], random_state=0)
    replaced_by(fields.fit(renamed, LABELS))
    expect(page.locator("#ask-trouble")).to_contain_text("these texts: abstract, keywords")
    expect(page.get_by_label("Title")).to_have_count(0)
    expect(page.get_by_label("Abstract")).to_have_value(record["abstract"])
    expect(page.get_by_label("Keywords")).to_have_value(record["title"])  # nothing is lost
    page.get_by_role("button", name="Suggest labels").click()
    expect(page.locator(".found").first).to_be_visible()
    expect(page.locator("#ask-trouble")).to_be_hidden()

    texts = [one["abstract"] for one in RECORDS]
    replaced_by(HedgerowTextClassifier(random_state=0).fit(texts, LABELS))
    expect(page.locator("#ask-trouble")).to_contain_text("reads one text")
    expect(page.get_by_label("Your text")).to_have_value(f"{record['abstract']}\n{record['title']}")
    expect(page.locator("#ask-form textarea")).to_have_count(1)
    page.get_by_label("Your text").press("Control+Enter")
    expect(page.locator(".found").first).to_be_visible()
    # The browser notes refusals, by which the page learns of the other model.
    opened.problems[:] = [one for one in opened.problems if "422" not in one]


def test_why_of_a_model_with_a_judge_then_it_says_what_the_judge_saw(
    serve_model: Serve, open_served: OpenPage
) -> None:
    sample = load_sample()
    model = HedgerowTextClassifier(judge=True, wide=5000, random_state=0, n_jobs=2)
    server = serve_model(model.fit(sample.train_texts, sample.train_labels))
    opened = open_served(server)
    text = sample.test_texts[0]
    opened.ask(text)
    label = opened.page.locator(".found-name").first.text_content() or ""
    row = opened.row(label)
    row.get_by_role("button", name="Why?").click()
    expect(row.locator(".judged")).to_be_visible()
    assert row.locator(".judged li").all_text_contents() == explain(model, text, label).sentences()
    assert violations(opened.page, "light") == []
