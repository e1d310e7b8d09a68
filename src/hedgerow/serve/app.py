"""The routes: from HTTP to the service and back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import asdict
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match
from starlette.types import ASGIApp, Scope

from hedgerow import __version__
from hedgerow.decisions.costs import Costs
from hedgerow.decisions.goals import Goal
from hedgerow.decisions.macro import Objective

from . import schemas
from .admission import Admitted
from .decision_schemas import Decide
from .errors import ApiError, error_body, refusal
from .filling import FALSE_ALARM
from .learning_schemas import LearningAnswer
from .metrics import CONTENT_TYPE
from .observation import BUG, Observed
from .page_files import PageFile, read_page
from .prediction import Wanted
from .promotion_schemas import ShadowAnswer, Swapped
from .security import Access, Guarded
from .served_model import AllowedLabels
from .service import Asked, Service

_Handler = Callable[..., Coroutine[Any, Any, Response]]


class _JsonRequest(Request):
    """Reads JSON as RFC 8259 defines it: no NaN, no half surrogate pairs, no thousandfold nesting."""

    async def json(self) -> Any:
        return orjson.loads(await self.body())


class _JsonRoute(APIRoute):
    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def with_json(request: Request) -> Response:
            return await handler(_JsonRequest(request.scope, request.receive))

        return with_json


_ERRORS = {
    400: "The request is not valid HTTP.",
    401: "The token is missing or wrong.",
    403: "The host name or the origin is not allowed.",
    404: "It does not exist.",
    408: "The request was not complete in time.",
    409: "The model file is being re-loaded already, there is no other model, or nothing can be learned now.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    422: "The request is not valid; the error says where and why.",
    503: "The server is busy, or cannot write the queue; try again after Retry-After seconds.",
    504: "There was no answer in time.",
    507: "Too many texts wait for review.",
}
_ALWAYS = (400, 401, 403, 408, 503, 504)
_BODY = (413, 415, 422)
_NO_PAGE = "there is no such page"
router = APIRouter(route_class=_JsonRoute)


def _errors(*codes: int) -> dict[int | str, dict[str, Any]]:
    return {
        code: {"model": schemas.ErrorAnswer, "description": _ERRORS[code]}
        for code in sorted({*_ALWAYS, *codes})
    }


def _text(kind: str, description: str, *codes: int) -> dict[int | str, dict[str, Any]]:
    """The description of an answer that is not JSON."""
    content = {kind: {"schema": {"type": "string"}}}
    return {200: {"description": description, "content": content}, **_errors(*codes)}


def _get(path: str, answer: type[BaseModel], *codes: int, summary: str) -> Callable[[_Handler], _Handler]:
    return router.get(path, response_model=answer, responses=_errors(*codes), summary=summary)


def _post(path: str, answer: type[BaseModel], *codes: int, summary: str) -> Callable[[_Handler], _Handler]:
    return router.post(path, response_model=answer, responses=_errors(*_BODY, *codes), summary=summary)


def _service(request: Request) -> Service:
    service: Service = request.app.state.service
    return service


def _json(value: Any) -> Response:
    return Response(orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY), media_type="application/json")


def _note(request: Request, **facts: Any) -> None:
    """Facts for the log; never what a client wrote."""
    request.scope["hedgerow.facts"] = facts


@_post("/predict", schemas.PredictResponse, summary="Predict labels")
async def predict(request: Request, asked: schemas.PredictRequest) -> Response:
    """Predict labels of inputs, with data (aleatoric) and knowledge (epistemic) uncertainty."""
    service = _service(request)
    objective = _objective(asked)
    goal, false_alarm = _goal(asked.decide, objective)
    question = Asked(
        Wanted(asked.k, asked.uncertainty, asked.votes, objective=objective),
        goal,
        AllowedLabels.of(**{name: getattr(asked, name) for name in schemas.SUBSET}),
        false_alarm,
        asked.lang,
    )
    if isinstance(asked, schemas.FeaturesRequest):
        rows = [(vector.indices, vector.values) for vector in asked.features]
        told = await service.predict_features(rows, question)
    elif isinstance(asked, schemas.TextsRequest):
        told = await service.predict_texts(asked.texts, question, "texts")
    else:
        told = await service.predict_texts([asked.text], question, "text")
    if isinstance(asked, schemas.TextRequest):
        given: schemas.TextIds = None if asked.id is None else [asked.id]
    else:
        given = asked.ids
    ids = _text_ids(given, len(told["results"]), "ids")
    if ids is not None:
        told["results"] = [{"id": id, **one} for id, one in zip(ids, told["results"], strict=True)]
    _note(request, inputs=len(told["results"]), model=told["model"])
    return _json(told)


def _objective(asked: schemas.PredictRequest) -> Objective | None:
    """What is to be high for all inputs together, where a request asks for that."""
    decide = asked.decide
    if decide is None or decide.optimise is None:
        return None
    where = "decide.optimise"
    try:
        objective = Objective.parse(decide.optimise)
    except ValueError as error:
        raise ApiError(422, "invalid", str(error), where) from error
    if others := decide.model_dump(exclude={"optimise", "false_alarm"}, exclude_defaults=True):
        raise ApiError(
            422,
            "invalid",
            f"optimise gives each input a number of labels; leave out {', '.join(others)}",
            where,
        )
    inputs = 1
    if not isinstance(asked, schemas.TextRequest):
        inputs = len(asked.texts if isinstance(asked, schemas.TextsRequest) else asked.features)
    if inputs < 2:
        raise ApiError(
            422,
            "one_input",
            "optimise chooses labels for all inputs of a request together, so that rare labels count like"
            " frequent ones, and this is one input; send several as texts or features, or leave out optimise",
            where,
        )
    return objective


def _text_ids(ids: Sequence[str | int | None] | None, count: int, where: str) -> list[str | None] | None:
    """Ids as texts, one for each input."""
    if ids is None:
        return None
    if len(ids) != count:
        raise ApiError(
            422, "invalid", f"there are {len(ids)} ids for {count} inputs; send one for each, or null", where
        )
    return [None if id is None else str(id) for id in ids]


def _goal(decide: Decide | None, objective: Objective | None) -> tuple[Goal | None, float]:
    if decide is None:
        return None, FALSE_ALARM
    if objective is not None:
        return None, decide.false_alarm
    costs = None if decide.costs is None else Costs(**decide.costs.model_dump())
    try:
        goal = Goal(
            wrong_at_most=decide.wrong_at_most,
            wrong_of=decide.wrong_of,
            missed_at_most=decide.missed_at_most,
            review_at_most=decide.review_at_most,
            costs=costs,
            broader=decide.broader,
        )
        return goal, decide.false_alarm
    except ValueError as error:
        raise ApiError(422, "invalid", str(error), "decide") from error


@_post("/explain", schemas.Explanation, summary="Explain a label")
async def explain(request: Request, asked: schemas.ExplainRequest) -> Response:
    """Give the words of a text that made a label more or less probable.

    The effect of a word is how much the logarithm of the label's probability would fall without it: the mean
    over the members, before calibration. Probability and votes are those of `/predict`: 0 where its search
    does not find the label.
    """
    return _json(await _service(request).explain(asked.text, asked.label, asked.top, asked.lang))


@_get("/labels", schemas.Labels, 422, summary="Search labels")
async def labels(request: Request, asked: Annotated[schemas.LabelsQuery, Query()]) -> Response:
    """List the labels that a query may mean.

    Of a model with a vocabulary, these are its entries with such a name in any language, best first: words
    may be unfinished and have typing mistakes. They need not be labels that the model knows. Otherwise, these
    are the labels that contain the query: those that begin with it first, then by frequency.
    """
    return _json(await _service(request).labels(asked.query, asked.offset, asked.limit, asked.lang))


@_get("/model", schemas.ModelInfo, summary="Describe the model")
async def model(request: Request) -> Response:
    """Describe the model, and what it guarantees when it decides."""
    return _json(_service(request).model())


@_get("/examples", schemas.Examples, summary="Texts to try")
async def examples(request: Request) -> Response:
    """Give texts of the embedded sample to try, and one that is out-of-distribution."""
    return _json({"examples": await _service(request).examples()})


@_post("/queue", schemas.Added, 507, summary="Add texts to the review queue")
async def add_to_queue(request: Request, asked: schemas.AddToQueue) -> Response:
    """Predict texts and keep them for a human to review."""
    _note(request, inputs=len(asked.texts))
    text_ids = _text_ids(asked.text_ids, len(asked.texts), "text_ids")
    return _json({"ids": await _service(request).add_to_queue(asked.texts, text_ids)})


@_get("/queue", schemas.Queue, 422, summary="Show the review queue")
async def queue(request: Request, asked: Annotated[schemas.QueueQuery, Query()]) -> Response:
    """Give the texts that wait for review, the most informative first.

    They are ordered by the largest knowledge uncertainty of any of a text's twenty most probable labels:
    where the members of the model disagree most, a review teaches most.
    """
    return _json({"items": [asdict(item) for item in await _service(request).queue(asked.limit, asked.lang)]})


@_get("/queue/counts", schemas.QueueCounts, summary="Count the queue")
async def counts(request: Request) -> Response:
    """Count the texts that wait for review, and those that are done."""
    return _json(asdict(await _service(request).counts()))


@router.get(
    "/queue/export",
    response_class=StreamingResponse,
    responses=_text("application/x-ndjson", "One record per line, as hedgerow fit reads them.", 422),
    summary="Export training data",
)
async def export(request: Request, asked: Annotated[schemas.ExportQuery, Query()]) -> Response:
    """Give the texts whose labels a human confirmed or corrected, as lines of JSON.

    With a vocabulary, `names` are those of the labels, in their order, and null where there is none.
    """
    return StreamingResponse(
        _service(request).export(asked.lang),
        media_type="application/x-ndjson",
        headers={"Content-Disposition": 'attachment; filename="reviewed.jsonl"'},
    )


@_post("/queue/{id}", schemas.Reviewed, 404, summary="Review a text")
async def review(
    request: Request, id: Annotated[int, Path(ge=1, le=2**63 - 1)], asked: schemas.Review
) -> Response:
    """Store the labels that a human gives to a text. A later review replaces an earlier one."""
    await _service(request).review(id, asked.state, asked.labels)
    return _json({"id": id, "state": asked.state})


@_post("/reload", schemas.Reloaded, 409, summary="Re-load the model file")
async def reload(request: Request) -> Response:
    """Load the model file, check it, and let the new model answer from then on.

    Requests in progress finish with the model they began with. A bad file changes nothing.
    """
    service = _service(request)
    before, now, left = await service.reload()
    promoter = service.promoter
    more = {} if promoter is None else {"promotion": promoter.describe()}
    return _json({"model": now, "before": before, "labels_that_left": left, **more})


@_post("/rollback", Swapped, 409, summary="Go back to the model before")
async def rollback(request: Request) -> Response:
    """Let the model answer again that the current one took the place of.

    It stays until the model file changes again, or until `POST /promote`; also after a restart. Needs a
    server with --promote-if.
    """
    return _json(await _service(request).roll_back())


@_post("/promote", Swapped, 409, summary="Promote a refused model")
async def promote(request: Request) -> Response:
    """Let the model answer that was refused or rolled back, whatever the comparison said."""
    return _json(await _service(request).promote())


@_post("/learn", LearningAnswer, 409, summary="Learn from reviews")
async def learn(request: Request) -> Response:
    """Update a copy of the model with what was reviewed, compare, and let it answer if it is good enough.

    This is `hedgerow learn`, in a process of its own that gives way to requests. `GET /learn` says how far
    it is. Needs a server with --promote-if and --judge-on, and a model with its records.
    """
    return _json(await _service(request).learn())


@_get("/learn", LearningAnswer, summary="How far is learning?")
async def learning(request: Request) -> Response:
    """Say what can be learned from reviews, how far it is, or what came of it."""
    return _json(await _service(request).learning())


@_get("/shadow", ShadowAnswer, 404, summary="Compare the candidate")
async def shadow(request: Request) -> Response:
    """Say how often the candidate of --shadow answers otherwise."""
    return _json(_service(request).shadow_report())


@_get("/healthz", schemas.Health, summary="Is it alive?")
async def healthz(request: Request) -> Response:
    """Answer if the process is alive."""
    promoter = _service(request).promoter
    more = {} if promoter is None else {"promotion": promoter.standing.state}
    return _json({"status": "alive", **more})


@_get("/readyz", schemas.Ready, summary="Is it ready?")
async def readyz(request: Request) -> Response:
    """Answer if the model is loaded and the queue can be written."""
    return _json({"status": "ready", "model": await _service(request).check_ready()})


@router.get(
    "/metrics",
    response_class=Response,
    responses=_text("text/plain", "Text format of Prometheus."),
    summary="Metrics",
)
async def metrics(request: Request) -> Response:
    """Counts and times for Prometheus."""
    service = _service(request)
    waiting = (await service.counts()).waiting
    served = service.slot.current
    shares = served.watched.shares()
    promoter = service.promoter
    service.metrics.candidate_refused(promoter is not None and promoter.standing.state == "refused")
    text = service.metrics.render(served.id, service.batcher.waiting, waiting, shares)
    return Response(text, headers={"Content-Type": CONTENT_TYPE})


@router.get("/", include_in_schema=False)
async def page(request: Request) -> Response:
    """The page."""
    return _file(request, "index.html")


@router.get("/static/{name}", include_in_schema=False)
async def static(request: Request, name: str) -> Response:
    """What the page is made of."""
    return _file(request, name)


def _file(request: Request, name: str) -> Response:
    files: dict[str, PageFile] = request.app.state.page
    if name not in files:
        raise ApiError(404, "not_found", _NO_PAGE)
    file = files[name]
    headers = {"ETag": file.tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers={**headers, "Content-Type": file.kind})


def build(
    service: Service,
    access: Access | None = None,
    running: Callable[[], AbstractAsyncContextManager[None]] = nullcontext,
) -> ASGIApp:
    """Make the ASGI application; by default anyone on this machine may ask.

    It answers within the context `running`, and closes the service at the end.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with running():
            yield
        await service.learner.stop()
        service.close()

    app = FastAPI(
        title="Hedgerow",
        version=__version__,
        description=(
            "Labels with data (aleatoric) and knowledge (epistemic) uncertainty, out-of-distribution (OOD)"
            " detection, and decisions with guarantees."
        ),
        # Their pages load scripts from elsewhere.
        docs_url=None,
        redoc_url=None,
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.state.service = service
    app.state.page = read_page()
    app.include_router(router)
    app.add_exception_handler(ApiError, _refuse)
    app.add_exception_handler(RequestValidationError, _refuse_invalid)
    app.add_exception_handler(HTTPException, _refuse_http)
    app.add_exception_handler(Exception, _admit_bug)  # and raised again, for the layer that logs
    description: dict[str, Any] = {}

    def openapi() -> dict[str, Any]:
        if not description:
            made = get_openapi(
                title=app.title, version=app.version, description=app.description, routes=app.routes
            )
            description.update(schemas.with_limits(made, service.limits))
        return description

    app.openapi = openapi  # type: ignore[method-assign]
    guarded = Guarded(Admitted(app, service.limits, _route_of), access or Access())
    return Observed(guarded, service.metrics)


def _route_of(scope: Scope) -> Any:
    """The route that a request would take, or None."""
    return next((route for route in router.routes if route.matches(scope)[0] is not Match.NONE), None)


async def _refuse(request: Request, error: Any) -> Response:
    response: Response = error.response()
    return response


async def _admit_bug(request: Request, error: Any) -> Response:
    return refusal(500, BUG)


async def _refuse_invalid(request: Request, error: Any) -> Response:
    problems = error.errors()
    first = problems[0]
    # The first part says only that it was the body, the second may be the kind of request: both are ours.
    parts = [str(part) for part in first["loc"][1:]]
    if parts and request.url.path == "/predict" and parts[0] in ("text", "texts", "features"):
        parts = parts[1:]
    message = first["msg"]
    if first["type"] == "json_invalid":
        message = f"the body is not JSON: {first.get('ctx', {}).get('error', message)}"
        parts = []
    if len(problems) > 1:
        message += f" (and {len(problems) - 1} more)"
    return refusal(422, error_body("invalid", message, ".".join(parts) or None))


async def _refuse_http(request: Request, error: Any) -> Response:
    code, message = {
        404: ("not_found", _NO_PAGE),
        405: ("method", "this page does not take that method; see the header Allow"),
    }.get(error.status_code, ("invalid", str(error.detail)))
    # FastAPI refuses a body that it cannot read with 400.
    status = 422 if error.status_code == 400 else error.status_code
    return refusal(status, error_body(code, message), error.headers)
