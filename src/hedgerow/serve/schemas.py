"""What requests and answers hold. The description of the API (``/openapi.json``) is made from it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag

from .decision_schemas import Decide, Guarantee, Policy
from .limits import Limits
from .promotion_schemas import Promotion, State
from .shift_schemas import Adapted, Shift
from .strict_schemas import Answer, Strict

_TEXT = "a fast terminal music player with playlists"
_LABEL = "role::program"
_MODEL = "5f0e8a11c2d39b47"
Text = Annotated[str, Field(examples=[_TEXT])]
# Of a model with fields, the texts of a record by name; a text alone is the last of them.
TextInput = Text | Annotated[dict[str, str], Field(min_length=1, max_length=64)]
Label = Annotated[str | int, Field(examples=[_LABEL])]
ModelId = Annotated[str, Field(description="A hash of the model's file.", examples=[_MODEL])]
Probability = Annotated[float, Field(description="Mean over the members.", examples=[0.9])]
Votes = Annotated[list[float], Field(description="The probability of each member.", examples=[[0.85, 0.95]])]
Number = Annotated[int, Field(ge=0, le=2**31 - 1)]
LabelNumber = Annotated[int, Field(ge=-(2**63), le=2**63 - 1)]
AskedLabel = Annotated[str | LabelNumber, Field(examples=[_LABEL])]
Language = Annotated[
    str | None,
    Field(
        max_length=35,
        pattern="^[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*$",
        description="The language of names, such as de or en, if there are any in it. Default: the first of"
        " the vocabulary.",
    ),
]
Name = Annotated[
    str | None,
    Field(description="Its name; only of a model with a vocabulary, and null where that has none."),
]
VocabularyIds = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1, max_length=1000)]
# The fields of a request that say which labels may be answered.
SUBSET = ("only", "exclude", "only_scheme", "only_subtree", "exclude_scheme", "exclude_subtree")
# What the readers of training data take.
TaughtLabel = Annotated[str, Field(min_length=1)] | LabelNumber
TextId = Annotated[str, Field(min_length=1, max_length=1000)] | LabelNumber
Value = Annotated[float, Field(ge=-3e38, le=3e38, allow_inf_nan=False)]


def _example(example: dict[str, Any]) -> ConfigDict:
    return ConfigDict(json_schema_extra={"examples": [example]})


# --- errors ---


class ErrorDetail(Answer):
    """Why a request was refused."""

    code: str = Field(description="One word for programs.", examples=["invalid"])
    message: str = Field(description="What is wrong, and how to fix it.")
    where: str | None = Field(None, description="Which part of the request.", examples=["texts.3"])


class ErrorAnswer(Answer):
    """A refusal."""

    error: ErrorDetail


# --- predict ---


class _Prediction(Strict):
    k: int = Field(10, ge=1, description="Labels per input; with `decide` also all that are not rejected.")
    uncertainty: bool = Field(True, description="Add uncertainty and the OOD score.")
    votes: bool = Field(False, description="Add the probability that each member gives.")
    decide: Decide | None = Field(
        None,
        description=(
            "Sort the labels into accept, review and reject. The answer lists every label that is accepted or"
            " needs review, whatever `k` is, and rejected ones up to `k`; all other labels are rejected."
        ),
    )
    only: list[AskedLabel] | None = Field(
        None,
        min_length=1,
        description=(
            "Answer these labels only: k of them, if there are as many. The uncertainty of an input is then"
            " the sum over them. With `decide`, the guarantee stays about all labels together: of these"
            " labels alone, a larger share can be missed or wrong."
        ),
    )
    exclude: list[AskedLabel] | None = Field(
        None, min_length=1, description="Do not answer these labels, nor any of `only` that is among them."
    )
    only_scheme: VocabularyIds | None = Field(
        None, description="Answer labels of these schemes of the vocabulary only, and those of `only`."
    )
    only_subtree: VocabularyIds | None = Field(
        None, description="Answer these entries of the vocabulary and what is below them only, and `only`."
    )
    exclude_scheme: VocabularyIds | None = Field(None, description="Do not answer labels of these schemes.")
    exclude_subtree: VocabularyIds | None = Field(
        None, description="Do not answer these entries of the vocabulary, nor what is below them."
    )
    lang: Language = None


TextIds = Annotated[
    list[TextId | None] | None,
    Field(description="Their own ids, in their order; null for one that has none. They come back."),
]


class TextRequest(_Prediction):
    """One text."""

    text: TextInput
    id: TextId | None = Field(None, description="Its own id, which comes back with the answer.")

    model_config = _example({"text": _TEXT, "k": 3, "votes": True, "decide": {"wrong_at_most": 0.1}})


class TextsRequest(_Prediction):
    """Several texts."""

    texts: list[TextInput] = Field(min_length=1)
    ids: TextIds = None

    model_config = _example({"texts": [_TEXT, "an address book"], "k": 5})


class FeatureVector(Strict):
    """The features of an input that are not 0."""

    indices: list[Number] = Field(description="Columns, each once.")
    values: list[Value] = Field(description="The value of each column.")


class FeaturesRequest(_Prediction):
    """Inputs for a model that reads features."""

    features: list[FeatureVector] = Field(min_length=1)
    ids: TextIds = None

    model_config = _example({"features": [{"indices": [3, 17], "values": [0.5, 1.25]}], "k": 5})


def _kind(value: Any) -> str | None:
    names = [name for name in ("text", "texts", "features") if isinstance(value, dict) and name in value]
    return names[0] if len(names) == 1 else None


PredictRequest = Annotated[
    Annotated[TextRequest, Tag("text")]
    | Annotated[TextsRequest, Tag("texts")]
    | Annotated[FeaturesRequest, Tag("features")],
    Discriminator(
        _kind,
        custom_error_type="one_kind_of_input",
        custom_error_message="give exactly one of text, texts and features",
    ),
]


class PredictedLabel(Answer):
    """A label with its uncertainty in nats: 0 is none, 0.69 that of a coin toss."""

    label: Label
    name: Name = None
    probability: Probability
    total: float | None = Field(None, description="Total uncertainty: data plus knowledge.")
    data: float | None = Field(
        None, description="Data (aleatoric) uncertainty: each member is unsure by itself."
    )
    knowledge: float | None = Field(
        None,
        description="Knowledge (epistemic) uncertainty: the members disagree, or no training input has the"
        " label.",
    )
    variance: float | None = Field(None, description="Variance of the members' probabilities.")
    votes: Votes | None = None
    decision: Literal["accept", "review", "reject"] | None = Field(
        None, description="Only with `decide`; review defers to a human."
    )


class InputUncertainty(Answer):
    """The uncertainty of an input: sums over all candidate labels, in nats."""

    expected: float = Field(description="Expected number of labels.")
    total: float
    data: float
    knowledge: float
    variance: float


class OODScores(Answer):
    """How far the input is out-of-distribution (OOD): unlike the training data."""

    score: float = Field(description="High for out-of-distribution inputs.")
    p_value: float = Field(description="Share of in-distribution inputs whose score is at least as high.")
    is_ood: bool = Field(description="Whether the p-value is at most `false_alarm`.")


class ExpectedQuality(Answer):
    """How good the best k labels are expected to be, each share with an interval."""

    k: int = Field(description="How many labels are meant: 5, or all where the model knows fewer.")
    confidence: float = Field(
        description="On average over inputs like the calibration inputs, each interval holds for this share"
        " of them (split conformal prediction)."
    )
    precision: float = Field(description="Expected share of right labels among the best k.")
    precision_low: float
    precision_high: float
    recall: float = Field(
        description="Expected share of the input's labels that are among the best k; only labels that the"
        " model knows count."
    )
    recall_low: float
    recall_high: float


class Result(Answer):
    """The prediction for an input."""

    id: str | None = Field(None, description="The input's own id, only where ids were sent.")
    labels: list[PredictedLabel] = Field(
        description="The most probable first: k of them, and with `decide` all that are not rejected."
    )
    broader: list[PredictedLabel] | None = Field(
        None,
        description="Only with `broader` of `decide`: accepted; that a label at or below a term is right.",
    )
    input: InputUncertainty | None = None
    ood: OODScores | None = Field(None, description="Null where the model cannot detect OOD inputs.")
    quality: ExpectedQuality | None = Field(
        None,
        description="Null where the model has not learned it, where its search has changed since, or where"
        " only some labels are allowed.",
    )


_SUMS = {"total": 0.32, "data": 0.31, "knowledge": 0.01, "variance": 0.003}
_RESULT = {
    "labels": [
        {"label": _LABEL, "probability": 0.9, **_SUMS, "votes": [0.85, 0.95], "decision": "accept"},
    ],
    "input": {"expected": 0.9, **_SUMS},
    "ood": {"score": 0.2, "p_value": 0.4, "is_ood": False},
    "quality": None,
}


class PredictResponse(Answer):
    """The prediction for each input, in their order."""

    model: ModelId
    shift: str | None = Field(
        None,
        description="With decide, and only where guarantees are not supported: why, in words.",
    )
    results: list[Result]
    guarantees: list[Guarantee] | None = Field(
        None, description="Only with `decide`: what is guaranteed, and what is not though it was asked for."
    )
    remarks: list[str] | None = Field(
        None, description="Only with `optimise` of `decide`: what was done, as nothing is guaranteed."
    )

    model_config = _example({"model": _MODEL, "results": [_RESULT]})


# --- explain ---


class ExplainRequest(Strict):
    """Which words made this label probable?"""

    text: TextInput
    label: AskedLabel
    top: int = Field(8, ge=1, le=100, description="Words of each kind.")
    lang: Language = None


class Effect(Answer):
    """What a word, or a pair of words, did to the label."""

    word: str
    field: str | None = Field(None, description="The field of the word, of a model with fields.")
    effect: float = Field(description="Change of the logarithm of the probability.")
    disagreement: float = Field(description="Its standard deviation over the members.")
    members_effect: float | None = Field(None, description="With a judge: the effect on the members alone.")
    wide_effect: float | None = Field(
        None, description="With a judge that asks a wide classifier: the effect on that alone."
    )


class Evidence(Answer):
    """One thing that the judge saw of a label."""

    name: Literal["members", "wide", "label", "centroid", "frequency"] = Field(
        description="The members' mean probability, the wide classifier's probability, the probability of the"
        " label's own classifier as if the groups of labels that lead to it were certain, the cosine of the"
        " input and the mean of the label's training inputs, or the number of these inputs."
    )
    value: float
    reference: float = Field(description="The same of a typical candidate of this input (the median).")
    effect: float = Field(description="How much it raised the log-odds (Shapley value).")


class JudgeView(Answer):
    """What the judge said, as a sum: base plus the effects of the evidence is log_odds."""

    probability: Probability
    log_odds: float
    base: float = Field(description="The log-odds of a typical candidate of this input.")
    evidence: list[Evidence]


class NameFind(Answer):
    """Names of the label in one text of the input."""

    field: str | None = Field(description="The text, of a model with fields.")
    count: int = Field(description="How often names of the label stand there.")
    outer: int = Field(description="How many of these are not within a longer name.")
    same_case: int = Field(description="How many are written as in the vocabulary, case included.")
    exact: int = Field(description="The same in lower case.")
    words: int = Field(description="Words of the longest name found.")
    entries: int = Field(description="How many entries of the vocabulary share the name, this one included.")
    preferred: bool = Field(description="Whether a preferred name was found.")
    shortened: bool = Field(description="Whether something is left out of all names found.")


class NameView(Answer):
    """Which names of the label the input has, and what they changed."""

    name: str | None = Field(description="What the vocabulary calls the label; null where it has no name.")
    names: int = Field(description="How many names the label has.")
    finds: list[NameFind]
    examples: int = Field(description="How many training inputs have the label.")
    before: Probability | None = Field(
        description="The probability without names; null where nothing but its names can propose the label."
    )
    after: Probability | None = Field(
        description="The probability with names, before calibration; null where the label is not predicted."
    )
    considered: bool = Field(description="Whether names were considered for the label.")
    cosine: float | None = Field(description="How near its name is to the text, for a model with label text.")
    best_cosine: float | None = Field(description="The highest one of all labels that were considered.")


class Explanation(Answer):
    """The words that made a label more or less probable, the strongest first."""

    label: Label
    name: Name = None
    probability: Probability
    votes: Votes
    speaks_for: list[Effect]
    speaks_against: list[Effect]
    members_probability: Probability = Field(
        description="The mean of the members before judge and calibration."
    )
    judge: JudgeView | None = Field(
        None, description="Null where the model has no judge, or the search does not find the label."
    )
    names: NameView | None = Field(
        None, description="Null where the model does not ask for names. Effects of words leave them out."
    )
    sentences: list[str] = Field(
        description="How the probability came about, in plain English; none without judge, names and"
        " calibration."
    )


# --- labels, model, examples ---


class LabelsQuery(Answer):
    """Which labels to list."""

    query: str = Field(
        "",
        max_length=1000,
        description="Words of a name; or, without a vocabulary, part of a label. Upper or lower case is the"
        " same.",
    )
    offset: int = Field(0, ge=0, le=2**31 - 1)
    limit: int = Field(50, ge=1, le=1000)
    lang: Language = None


class KnownLabel(Answer):
    """A label of the model, or an entry of its vocabulary that no training input has."""

    label: Label
    name: Name = None
    count: int | None = Field(description="How many training inputs have it, if the model knows.")
    matched: str | None = Field(None, description="The name by which it was found.")


class Labels(Answer):
    """What a query may mean: by names the best first; else what begins with it first, then by frequency."""

    total: int = Field(description="How many there are; at most 1,000 where they are found by names.")
    labels: list[KnownLabel]


class ModelInfo(Answer):
    """What the model is."""

    id: ModelId
    labels: int
    members: int
    method: str
    texts: bool = Field(description="Whether it reads texts, not features.")
    fields: list[str] | None = Field(
        None, description="The texts of an input by name; null where it is one text."
    )
    languages: list[str] | None = Field(
        None, description="The languages of names, the default first; null where it has no vocabulary."
    )
    calibrated: bool = Field(description="Whether a probability of 0.8 is right four times out of five.")
    detects_ood: bool = Field(description="Whether it can detect out-of-distribution (OOD) inputs.")
    policy: Policy | None = Field(
        description="Null where it is not calibrated for decisions, or its search has changed since."
    )
    broader: bool = Field(False, description="Whether it can answer broader terms; see `decide`.")
    schemes: list[str] = Field([], description="Schemes of its vocabulary, at most 100.")
    hierarchy: bool = Field(False, description="Whether its vocabulary has broader terms.")
    shift: Shift | None = Field(None, description="Null where it is not calibrated for decisions.")
    adapted: Adapted | None = Field(None, description="Null where the server was started without --adapt.")
    promotion: Promotion | None = Field(None, description="Null where it was started without --promote-if.")


class Example(Answer):
    """A text to try."""

    text: Text
    about: str = Field(description="What it shows.")


class Examples(Answer):
    """Texts to try; none where the model has other labels than the embedded sample."""

    examples: list[Example]


# --- queue ---


class AddToQueue(Strict):
    """Texts for a human to review."""

    texts: list[
        Annotated[str, Field(min_length=1, examples=[_TEXT])]
        | Annotated[dict[str, str], Field(min_length=1, max_length=64)]
    ] = Field(min_length=1)
    text_ids: TextIds = None


class Added(Answer):
    """Their numbers, in their order. A text that waits already keeps its number."""

    ids: list[int]


class QueueQuery(Answer):
    """How much of the queue to show."""

    limit: int = Field(20, ge=1, le=100)
    lang: Language = None


class ExportQuery(Answer):
    """How to call the labels of reviewed texts."""

    lang: Language = None


class QueuedText(Answer):
    """A text that waits for review."""

    id: int
    text_id: str | None = Field(None, description="The id that the text brought with it.")
    text: TextInput
    knowledge: float = Field(description="The largest knowledge uncertainty of any of its labels, in nats.")
    model: ModelId
    prediction: Result


class Queue(Answer):
    """Texts that wait, the most informative first."""

    items: list[QueuedText]

    model_config = _example(
        {"items": [{"id": 1, "text": _TEXT, "knowledge": 0.21, "model": _MODEL, "prediction": _RESULT}]}
    )


class Review(Strict):
    """The labels that a human gives to a text."""

    labels: list[TaughtLabel] = Field(
        default_factory=list, max_length=1000, description="Its true labels, also ones new to the model."
    )
    state: Literal["confirmed", "corrected", "skipped"]

    model_config = _example({"labels": [_LABEL], "state": "corrected"})


class Reviewed(Answer):
    """What was stored."""

    id: int
    state: str


class QueueCounts(Answer):
    """How many texts are in each state."""

    waiting: int
    confirmed: int
    corrected: int
    skipped: int


# --- operation ---


class Reloaded(Answer):
    """The model that answers now, and the one before; the same where the file has not changed."""

    model: ModelId
    before: ModelId
    labels_that_left: int = Field(
        description="Labels that left the vocabulary of the model that answers now. It predicts them as"
        " before, until it is fitted again; `hedgerow inspect --json` lists them."
    )
    promotion: Promotion | None = Field(None, description="Null where it was started without --promote-if.")


class Health(Answer):
    """The process is alive."""

    status: Literal["alive"]
    promotion: State | None = Field(None, description="With --promote-if: what became of the last model.")


class Ready(Answer):
    """The model is loaded, and the queue can be written."""

    status: Literal["ready"]
    model: ModelId


def with_limits(description: dict[str, Any], limits: Limits) -> dict[str, Any]:
    """Write the limits into the description that FastAPI makes of these classes, and return it."""

    def properties(name: str) -> Any:
        return description["components"]["schemas"][name]["properties"]

    for name in ("TextRequest", "TextsRequest", "FeaturesRequest"):
        properties(name)["k"]["maximum"] = limits.k
        for allowed in ("only", "exclude"):
            properties(name)[allowed]["anyOf"][0]["maxItems"] = limits.subset

    def limit_text(kinds: Any) -> None:
        """A text alone is limited, and so are the texts of a record, all together."""
        text, record = kinds["anyOf"]
        text["maxLength"] = limits.text
        record["additionalProperties"]["maxLength"] = limits.text

    for name in ("TextRequest", "ExplainRequest"):
        limit_text(properties(name)["text"])
    for name in ("TextsRequest", "AddToQueue"):
        properties(name)["texts"]["maxItems"] = limits.batch
        limit_text(properties(name)["texts"]["items"])
    properties("FeaturesRequest")["features"]["maxItems"] = limits.batch
    for name in ("indices", "values"):
        properties("FeatureVector")[name]["maxItems"] = limits.entries
    return description
