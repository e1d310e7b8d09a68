"""The embedded sample: what it holds, and that the committed script made it."""

from __future__ import annotations

from collections import Counter

from make_sample import MAX_TEXT, MIN_TAGS, MIN_TEXT, TEST_RECORDS, TRAIN_RECORDS, choose

from hedgerow.data.sample import load_sample


def test_sample_has_the_stated_sizes() -> None:
    sample = load_sample()
    assert len(sample.train_texts) == len(sample.train_labels) == len(sample.train_ids) == TRAIN_RECORDS
    assert len(sample.test_texts) == len(sample.test_labels) == len(sample.test_ids) == TEST_RECORDS


def test_sample_has_no_record_twice() -> None:
    sample = load_sample()
    assert len({*sample.train_ids, *sample.test_ids}) == TRAIN_RECORDS + TEST_RECORDS
    assert len({*sample.train_texts, *sample.test_texts}) == TRAIN_RECORDS + TEST_RECORDS


def test_sample_can_be_learned_and_has_a_tail() -> None:
    sample = load_sample()
    count = Counter(label for labels in sample.train_labels for label in labels)
    assert sum(number >= 20 for number in count.values()) > 150
    assert sum(number == 1 for number in count.values()) > 20
    known = [label in count for labels in sample.test_labels for label in labels]
    assert 0.95 < sum(known) / len(known) < 1


def test_choice_does_not_depend_on_the_order_of_records() -> None:
    tags = ["a::b"] * MIN_TAGS
    text = "x" * MIN_TEXT
    records = [
        {"id": f"p{i}", "split": "train", "text": text, "tags": tags, "depends": []} for i in range(30)
    ]
    records[7] = {**records[7], "text": "x" * (MAX_TEXT + 1)}
    records[8] = {**records[8], "tags": tags[1:]}
    chosen = choose(records)
    assert chosen == choose(reversed(records))
    assert len(chosen) == 28
    assert set(chosen[0]) == {"id", "split", "text", "labels"}
