"""The stock client of the Open Inference Protocol, ``tritonclient[http]``, against a real server of two workers."""

from __future__ import annotations

import shutil
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import numpy as np
import pytest

import localrank
from tests.end_to_end.serving import serving

if TYPE_CHECKING:
    from collections.abc import Iterator

triton: Any = import_module("tritonclient.http")
utils: Any = import_module("tritonclient.utils")

ROOT = Path(__file__).parents[2]
KEY = "a-key-for-the-test"
ADMIN = {"x-api-key": KEY, "content-type": "application/json"}
RANKER = localrank.load(ROOT / "models" / "demo")
WIDTH = RANKER.contract.n_features
RANDOM = np.random.default_rng(5)
SPREAD = RANKER.contract.quantiles[-1] - RANKER.contract.quantiles[0]
DOCUMENTS = (RANKER.contract.quantiles[0] + RANDOM.random((50, WIDTH)) * SPREAD).astype(np.float32)


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    models = tmp_path_factory.mktemp("triton") / "models"
    shutil.copytree(ROOT / "models", models)
    with serving(models, "--admin-key", KEY, "--workers", "2", "--max-documents", "500") as client:
        yield str(client.base_url).removeprefix("http://").rstrip("/")


@pytest.fixture
def client(address: str) -> Iterator[Any]:
    with triton.InferenceServerClient(address) as one:
        yield one


def tensor(name: str, values: Any, datatype: str, *, binary: bool = True) -> Any:
    one = triton.InferInput(name, list(values.shape), datatype)
    one.set_data_from_numpy(values, binary_data=binary)
    return one


def test_the_server_tells_what_it_is_and_how(client: Any) -> None:
    assert client.is_server_live()
    assert client.is_server_ready()
    metadata = client.get_server_metadata()
    assert ("localrank", localrank.__version__) == (metadata["name"], metadata["version"])
    assert {"binary_tensor_data", "statistics", "model_repository", "model_configuration"} <= set(
        metadata["extensions"]
    )
    assert client.is_model_ready("demo")
    assert client.is_model_ready("demo", "1")
    assert client.is_model_ready("demo@champion")
    assert not client.is_model_ready("demo", "9")
    assert not client.is_model_ready("nope")
    assert [-1, WIDTH] == client.get_model_metadata("demo")["inputs"][0]["shape"]
    assert ["1"] == client.get_model_metadata("demo", "1")["versions"]
    assert "demo" == client.get_model_config("demo", "1")["name"]


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False, None])
@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
def test_inference_in_json_and_binary(
    client: Any, *, binary_in: bool, binary_out: bool | None, datatype: str
) -> None:
    expected = RANKER.rank(DOCUMENTS)
    ids = np.array([f"dokument-{i}" for i in range(50)], object)
    outputs = None
    if binary_out is not None:
        outputs = [
            triton.InferRequestedOutput(name, binary_data=binary_out)
            for name in ("ranking", "scores", "doc_ids", "cluster")
        ]

    result = client.infer(
        "demo",
        [
            tensor(
                "features", DOCUMENTS.astype(utils.triton_to_np_dtype(datatype)), datatype, binary=binary_in
            ),
            tensor("doc_ids", ids, "BYTES", binary=binary_in),
        ],
        outputs=outputs,
        request_id="the-id",
        parameters={"top_n": 50},
    )

    response = result.get_response()
    assert ("demo", "1", "the-id") == (response["model_name"], response["model_version"], response["id"])
    np.testing.assert_array_equal(expected.scores, result.as_numpy("scores"))
    np.testing.assert_array_equal(expected.order, result.as_numpy("ranking"))
    np.testing.assert_array_equal([expected.route.cluster], result.as_numpy("cluster"))
    found = [one.decode() if isinstance(one, bytes) else one for one in result.as_numpy("doc_ids")]
    assert ids[expected.order].tolist() == found


@pytest.mark.parametrize("request_compression", ["gzip", "deflate", None])
@pytest.mark.parametrize("response_compression", ["gzip", "deflate", None])
def test_compressed_both_ways(
    client: Any, request_compression: str | None, response_compression: str | None
) -> None:
    expected = RANKER.rank(DOCUMENTS)

    for binary in (True, False):
        result = client.infer(
            "demo",
            [tensor("features", DOCUMENTS, "FP32", binary=binary)],
            outputs=[triton.InferRequestedOutput(name, binary_data=binary) for name in ("scores", "ranking")],
            model_version="1",
            request_compression_algorithm=request_compression,
            response_compression_algorithm=response_compression,
        )

        np.testing.assert_array_equal(expected.scores, result.as_numpy("scores"))
        np.testing.assert_array_equal(expected.order, result.as_numpy("ranking"))


def test_half_precision_integers_and_groups(client: Any) -> None:
    half = RANDOM.random((30, WIDTH)).astype(np.float16)
    sizes = [10, 0, 20]
    parts = [RANKER.rank(half[:10].astype(np.float32)), RANKER.rank(half[10:].astype(np.float32))]

    result = client.infer(
        "demo",
        [
            tensor("features", half, "FP16"),
            tensor("group", np.array(sizes, np.int32), "INT32"),
            tensor("doc_ids", np.arange(30, dtype=np.int64), "INT64", binary=False),
        ],
    )

    np.testing.assert_array_equal(np.concatenate([part.scores for part in parts]), result.as_numpy("scores"))
    ranking = np.concatenate([parts[0].order, parts[1].order + 10])
    np.testing.assert_array_equal(ranking, result.as_numpy("ranking"))
    np.testing.assert_array_equal(ranking, result.as_numpy("doc_ids"))
    assert -1 == result.as_numpy("cluster")[1]


def test_asynchronous_inference(client: Any) -> None:
    expected = RANKER.rank(DOCUMENTS)

    pending = [client.async_infer("demo", [tensor("features", DOCUMENTS, "FP32")]) for _ in range(3)]

    for one in pending:
        np.testing.assert_array_equal(expected.order, one.get_result().as_numpy("ranking"))


@pytest.mark.parametrize(
    ("model", "version", "inputs", "outputs", "status", "said"),
    [
        ("nope", "", [("features", DOCUMENTS, "FP32")], None, "404", "no model 'nope'"),
        ("demo", "9", [("features", DOCUMENTS, "FP32")], None, "404", "no model 'demo@9'"),
        (
            "demo",
            "",
            [("features", DOCUMENTS[:, :3], "FP32")],
            None,
            "422",
            "3 features per document; expected 10",
        ),
        ("demo", "", [("features", DOCUMENTS[0], "FP32")], None, "422", "expected [documents, 10]"),
        (
            "demo",
            "",
            [("features", DOCUMENTS.astype(np.int32), "INT32")],
            None,
            "422",
            "one of FP16, FP32, FP64",
        ),
        (
            "demo",
            "",
            [("text", np.array(["a"], object), "BYTES")],
            None,
            "422",
            "one of features, doc_ids, group",
        ),
        (
            "demo",
            "",
            [("group", np.array([1], np.int32), "INT32")],
            None,
            "422",
            "expected the input 'features', found none",
        ),
        (
            "demo",
            "",
            [("features", DOCUMENTS, "FP32"), ("group", np.array([1], np.int32), "INT32")],
            None,
            "422",
            "sums up to 1",
        ),
        (
            "demo",
            "",
            [("features", DOCUMENTS, "FP32"), ("doc_ids", np.array([1, 2]), "INT64")],
            None,
            "422",
            "expected [50]",
        ),
        (
            "demo",
            "",
            [("features", np.full((1, WIDTH), np.inf, np.float32), "FP32")],
            None,
            "422",
            "infinite",
        ),
        ("demo", "", [("features", DOCUMENTS, "FP32")], "probabilities", "422", "one of scores"),
        ("demo", "", [("features", np.zeros((501, WIDTH), np.float32), "FP32")], None, "413", "takes 500"),
    ],
)
@pytest.mark.parametrize("binary", [True, False])
def test_every_error_is_told(
    client: Any,
    *,
    binary: bool,
    model: str,
    version: str,
    inputs: Any,
    outputs: str | None,
    status: str,
    said: str,
) -> None:
    if not binary and "infinite" in said:
        said = "not JSON"  # it has no infinity
        status = "400"
    tensors = [tensor(*one, binary=binary) for one in inputs]
    wanted = None if outputs is None else [triton.InferRequestedOutput(outputs)]

    with pytest.raises(utils.InferenceServerException) as caught:
        client.infer(model, tensors, outputs=wanted, model_version=version)

    assert status == caught.value.status()
    assert said in caught.value.message()


def test_a_timeout_that_has_passed_is_an_error_if_only_the_best_will_do(client: Any) -> None:
    with pytest.raises(utils.InferenceServerException) as caught:
        client.infer(
            "demo", [tensor("features", DOCUMENTS, "FP32")], timeout=1, parameters={"allow_degraded": False}
        )

    assert "504" == caught.value.status()
    assert "timeout of 0.001 ms" in caught.value.message()


def test_a_timeout_that_has_passed_is_answered_with_the_order_of_the_request(client: Any) -> None:
    group = tensor("group", np.array([20, 30], np.int32), "INT32")

    result = client.infer("demo", [tensor("features", DOCUMENTS, "FP32"), group], timeout=1)

    assert "request_order,request_order" == result.get_response()["parameters"]["degraded"]
    assert list(range(50)) == result.as_numpy("ranking").tolist()


def test_statistics_are_those_of_all_workers(address: str) -> None:
    def count() -> int:
        with triton.InferenceServerClient(address) as client:
            stats = client.get_inference_statistics("demo")["model_stats"][0]
        return int(stats["inference_stats"]["success"]["count"])

    before = count()
    for _ in range(20):  # each on a connection of its own, so that both workers get some
        with triton.InferenceServerClient(address) as client:
            client.infer("demo", [tensor("features", DOCUMENTS, "FP32")])

    assert before + 20 == count()
    with triton.InferenceServerClient(address) as client:
        assert ["demo"] == [one["name"] for one in client.get_inference_statistics()["model_stats"]]


def test_models_are_unloaded_and_loaded_in_every_worker(address: str) -> None:
    def answers() -> set[bool]:
        found = set()
        for _ in range(12):
            with httpx.Client(base_url=f"http://{address}") as one:
                found.add(200 == one.get("/v2/models/demo/ready").status_code)
        return found

    with triton.InferenceServerClient(address) as client:
        [entry] = client.get_model_repository_index()
        assert ("demo", "1", "READY") == (entry["name"], entry["version"], entry["state"])
        with pytest.raises(utils.InferenceServerException, match="needs a key"):
            client.unload_model("demo")
        for parameters in ({"config": "{}"}, {"files": {"file:1/model.bin": b"code"}, "config": "{}"}):
            with pytest.raises(utils.InferenceServerException, match="models come from the registry only"):
                client.load_model("demo", headers=ADMIN, **parameters)
        with pytest.raises(utils.InferenceServerException, match="expected a model 'nope'"):
            client.load_model("nope", headers=ADMIN)
        assert {True} == answers()

        client.unload_model("demo", headers=ADMIN, unload_dependents=True)
        assert {False} == answers()
        assert not client.is_server_ready()
        with pytest.raises(utils.InferenceServerException, match="model 'demo' is unloaded"):
            client.infer("demo", [tensor("features", DOCUMENTS, "FP32")])
        [entry] = client.get_model_repository_index()
        assert ("UNAVAILABLE", "unloaded") == (entry["state"], entry["reason"])

        client.load_model("demo", headers=ADMIN)
        assert {True} == answers()
        assert client.is_server_ready()
