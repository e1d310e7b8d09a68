"""What ``hedgerow fit`` says about the model that it saved."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from .terminal import say

if TYPE_CHECKING:
    from hedgerow import HedgerowClassifier


def summarize(
    model: Path,
    classifier: HedgerowClassifier,
    rows: int,
    seconds: float,
    settings: Iterable[str],
    extended: bool,
) -> dict[str, Any]:
    """What was trained, for people and programs; `settings` are the parameters to name."""
    from hedgerow import HedgerowTransformerClassifier

    about, params = classifier.describe(), classifier.get_params(deep=False)
    summary: dict[str, Any] = {
        "model": str(model),
        "bytes": model.stat().st_size,
        "method": about["method"],
        "members": about["members"],
        "rows": rows,
        "labels": about["labels"],
        "seconds": round(seconds, 3),
        "settings": {name: params[name] for name in settings if name in params},
    }
    if "vocabulary" in about:
        summary["vocabulary"] = about["vocabulary"]
    if params.get("judge"):
        summary["judge"] = about["judge"]
    if about["no_judge"] is not None:
        summary["no_judge"] = about["no_judge"]
    if "vocabulary" in about and classifier.source.reader.kind != "features":
        summary["names"] = about["names"]
    # Extending a model leaves its encoder as it is.
    if isinstance(classifier, HedgerowTransformerClassifier) and not extended:
        tuned = [report.to_dict() for report in classifier.fine_tuning_ if report.tokens]
        if tuned:
            summary["fine_tuning"] = tuned
    return summary


def why_no_judge(found: dict[str, Any]) -> str:
    """Why a model has no judge, in a sentence."""
    if found["reason"] == "too little data":
        return "The judge was left out: too little data to learn it from."
    if found["reason"] == "not asked for":
        return "The model has no judge: not asked for. --judge, and the presets balanced and best, learn one."
    before, after = 100 * found["ndcg_before"], 100 * found["ndcg"]
    return (
        "The judge was left out: it did not rank better than the trees alone on held-out inputs (nDCG@5"
        f" {before:.1f} -> {after:.1f})."
    )


def _about_judge(judge: dict[str, Any]) -> str:
    before, after = 100 * judge["ndcg_before"], 100 * judge["ndcg"]
    return (
        f"The judge ranks better than the trees alone on held-out inputs: nDCG@5 {before:.1f} -> {after:.1f}."
    )


def _about_names(names: dict[str, Any] | None, judges: bool) -> str:
    if names is not None:
        before, after = 100 * names["ndcg_before"], 100 * names["ndcg"]
        return (
            f"Names: {names['entries']:,} entries, of which {names['never_seen']:,} have no example;"
            f" nDCG@5 from {before:.1f} to {after:.1f} % on held-out texts.{_about_label_text(names)}"
        )
    if judges:
        return (
            "Names in texts ranked no better than the model without them, or there was too little data, so"
            " they are not used."
        )
    return (
        "Names in texts are not used, because the model has no judge: fit with --judge, or with --preset"
        " balanced or best."
    )


def _about_label_text(names: dict[str, Any]) -> str:
    kept, left_out = names["label_text"], names["no_label_text"]
    found = kept or left_out
    if found is None:
        return ""
    figures = (
        f"nDCG@5 {100 * found['ndcg_before']:.1f} -> {100 * found['ndcg']:.1f}, labels not found included"
    )
    if kept is None:
        return f" Label text was left out, as it did not rank better ({figures})."
    return f" Label text ranks better still ({figures})."


def print_summary(summary: dict[str, Any]) -> None:
    """Say it in sentences."""
    model = summary["model"]
    members = "1 member" if summary["members"] == 1 else f"{summary['members']:,} members"
    kind = f"{decimal(summary['bytes'])}; {summary['method']}, {members}"
    # Of entries that only their names propose, nothing was learned.
    names = summary.get("names")
    learned = summary["labels"] - (names["never_seen"] if names else 0)
    say(
        f"Saved {model} ({kind}): {learned:,} labels learned from {summary['rows']:,} rows in"
        f" {summary['seconds']:.1f} s."
    )
    if "until" in summary:
        say(f"{summary['later_rows']:,} rows later than {summary['until']} were left out.")
    if tuned := summary.get("fine_tuning"):
        tokens, spent = (sum(of[part] for of in tuned) for part in ("tokens", "seconds"))
        say(f"Fine-tuning read {tokens:,} tokens in {spent:.0f} s, {tokens / spent:,.0f} per second.")
    if "vocabulary" in summary and not names:
        named = summary["vocabulary"]["labels_with_a_name"]
        say(f"{named:,} of the labels have a name in the vocabulary.")
    if summary.get("judge") is not None:
        say(_about_judge(summary["judge"]))
    if "no_judge" in summary:
        say(why_no_judge(summary["no_judge"]))
    if "names" in summary:
        say(_about_names(names, "judge" in summary))
    if "discarded" in summary:
        from .extending import about_discarded

        say(about_discarded(summary["discarded"], Path(model)))
    say(f"Next: hedgerow predict {model} INPUT, or hedgerow inspect {model}", "dim")
