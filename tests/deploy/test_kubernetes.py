"""The Kubernetes manifests: their schemas, and that they agree with each other and with the service."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from localrank_service.app import create_app
from localrank_service.process.settings import Settings
from localrank_service.telemetry.meters import Meters
from tests.environments import fresh, install

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
BIN = Path(sys.executable).parent
#: The oldest and the newest Kubernetes that the manifests are checked against.
VERSIONS = ("1.27", "1.37")
#: Kinds that Kubernetes itself does not define.
FOREIGN = {"Kustomization", "ServiceMonitor", "ServingRuntime", "InferenceService"}


def manifests(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if "kind" in one]


def every() -> dict[str, dict[str, Any]]:
    """All manifests by kind and name."""
    found = [one for path in sorted(FOLDER.rglob("*.yaml")) for one in manifests(path)]
    return {f"{one['kind']}/{one.get('metadata', {}).get('name', '')}": one for one in found}


ALL = every()
DEPLOYMENT = ALL["Deployment/localrank"]
POD = DEPLOYMENT["spec"]["template"]
(CONTAINER,) = POD["spec"]["containers"]
RUNTIME = ALL["ServingRuntime/localrank"]["spec"]
(SERVED,) = RUNTIME["containers"]
JOB = ALL["Job/localrank-models"]["spec"]["template"]


def run(*command: str | Path) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert 0 == done.returncode, done.stdout + done.stderr
    return done.stdout


def validate(manifest: dict[str, Any], folder: Path, version: str) -> None:
    path = folder / "manifest.yaml"
    path.write_text(yaml.safe_dump(manifest))
    run(BIN / "kubernetes-validate", "--strict", "--quiet", "--kubernetes-version", version, path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", sorted(name for name in ALL if name.split("/")[0] not in FOREIGN))
def test_every_manifest_fits_its_schema_and_has_no_other_field(
    name: str, version: str, tmp_path: Path
) -> None:
    validate(ALL[name], tmp_path, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_container_of_kserve_fits_the_schema_of_a_pod(version: str, tmp_path: Path) -> None:
    spec = {name: RUNTIME[name] for name in ("containers", "volumes")}

    validate({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": spec}, tmp_path, version)


def test_the_files_have_no_fault_that_yamllint_knows() -> None:
    run(BIN / "yamllint", "--strict", "-c", ROOT / "deploy" / ".yamllint", ROOT / "deploy")


def test_the_kustomization_has_every_file_but_those_that_are_applied_alone() -> None:
    kustomization = ALL["Kustomization/"]
    alone = {"kustomization.yaml", "job.yaml", "prometheus-adapter.yaml"}

    assert {path.name for path in FOLDER.glob("*.yaml")} - alone == set(kustomization["resources"])
    (image,) = kustomization["images"]
    assert CONTAINER["image"] == image["name"]
    assert f"{image['newName']}:{image['newTag']}" == SERVED["image"] == JOB["spec"]["containers"][0]["image"]


def variables(container: dict[str, Any]) -> dict[str, str]:
    """What the container's environment says."""
    plain = {one["name"]: one["value"] for one in container.get("env", ())}
    maps = [
        ALL[f"ConfigMap/{source['configMapRef']['name']}"]["data"] for source in container.get("envFrom", ())
    ]
    return plain | {name: value for data in maps for name, value in data.items()}


@pytest.mark.parametrize("container", [CONTAINER, SERVED], ids=["deployment", "kserve"])
def test_the_environment_holds_settings_of_the_service(container: dict[str, Any]) -> None:
    settings = Settings.from_environ(variables(container))

    assert "0.0.0.0" == settings.host
    assert [settings.port] == [port["containerPort"] for port in container["ports"]]
    assert "serve" == container["args"][0]


def test_a_pod_has_time_to_drain() -> None:
    settings = Settings.from_environ(variables(CONTAINER))
    probe = CONTAINER["readinessProbe"]

    # A load balancer must have noticed before the pod stops to accept, and requests must have ended before it is killed.
    assert probe["periodSeconds"] * probe["failureThreshold"] < settings.drain_seconds
    assert (
        settings.drain_seconds + settings.body_timeout_seconds < POD["spec"]["terminationGracePeriodSeconds"]
    )


@pytest.mark.parametrize("container", [CONTAINER, SERVED], ids=["deployment", "kserve"])
def test_probes_ask_for_routes_that_exist_on_the_port_that_is_open(container: dict[str, Any]) -> None:
    paths = {getattr(route, "path", "") for route in create_app(Settings()).routes}
    ports = {value for port in container["ports"] for value in (port["name"], port["containerPort"])}

    for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
        probe = container[kind]["httpGet"]
        assert probe["path"] in paths
        assert probe["port"] in ports


def test_keys_and_models_are_where_the_settings_look_for_them() -> None:
    settings = variables(CONTAINER)
    mounts = {mount["name"]: mount for mount in CONTAINER["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in POD["spec"]["volumes"]}
    said = (FOLDER / "deployment.yaml").read_text()

    assert settings["LOCALRANK_MODELS_DIR"] == mounts["models"]["mountPath"]
    for name in ("LOCALRANK_API_KEY_FILE", "LOCALRANK_ADMIN_KEY_FILE"):
        folder, _, key = settings[name].rpartition("/")
        assert mounts["keys"]["mountPath"] == folder
        assert f"--from-file={key}=" in said
    assert f"generic {volumes['keys']['secret']['secretName']} " in said
    assert f"PersistentVolumeClaim/{volumes['models']['persistentVolumeClaim']['claimName']}" in ALL
    assert mounts.keys() == volumes.keys()


@pytest.mark.parametrize(
    ("spec", "user"),
    [(POD["spec"], None), (JOB["spec"], None), (RUNTIME, 10001)],
    ids=["deployment", "job", "kserve"],
)
def test_pods_run_as_the_user_of_the_image_with_nothing_to_spare(
    spec: dict[str, Any], user: int | None
) -> None:
    (container,) = spec["containers"]
    security = container["securityContext"]

    assert 10001 == (user or spec["securityContext"]["runAsUser"])
    assert re.search(r"^USER 10001:10001$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert ["ALL"] == security["capabilities"]["drop"]
    assert {"cpu", "memory"} == container["resources"]["limits"].keys()
    assert "/tmp" in {mount["mountPath"] for mount in container["volumeMounts"]}


def test_selectors_find_the_pods() -> None:
    labels = POD["metadata"]["labels"].items()
    disruption, autoscaler = (
        ALL["PodDisruptionBudget/localrank"]["spec"],
        ALL["HorizontalPodAutoscaler/localrank"]["spec"],
    )

    for selector in (
        DEPLOYMENT["spec"]["selector"]["matchLabels"],
        ALL["Service/localrank"]["spec"]["selector"],
        disruption["selector"]["matchLabels"],
        ALL["NetworkPolicy/localrank"]["spec"]["podSelector"]["matchLabels"],
        POD["spec"]["topologySpreadConstraints"][0]["labelSelector"]["matchLabels"],
    ):
        assert selector.items() == labels
    assert (
        JOB["metadata"]["labels"] == ALL["NetworkPolicy/localrank-jobs"]["spec"]["podSelector"]["matchLabels"]
    )
    assert JOB["metadata"]["labels"].items() != labels
    assert ("Deployment", "localrank") == (
        autoscaler["scaleTargetRef"]["kind"],
        autoscaler["scaleTargetRef"]["name"],
    )
    assert "replicas" not in DEPLOYMENT["spec"], "it would fight with the autoscaler"
    assert autoscaler["minReplicas"] > disruption["maxUnavailable"]


def test_the_autoscaler_asks_for_a_metric_that_exists_and_is_provided() -> None:
    (metric,) = ALL["HorizontalPodAutoscaler/localrank"]["spec"]["metrics"]
    (rule,) = yaml.safe_load((FOLDER / "prometheus-adapter.yaml").read_text())["rules"]["custom"]
    asked = metric["pods"]["metric"]["name"]

    assert asked == rule["name"]["as"]
    assert rule["seriesQuery"].startswith(f"{asked}{{")
    assert f"# TYPE {asked} gauge" in Meters().expose().decode()


def test_prometheus_finds_the_metrics() -> None:
    monitor, service = ALL["ServiceMonitor/localrank"], ALL["Service/localrank"]
    (endpoint,) = monitor["spec"]["endpoints"]

    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert "/metrics" == endpoint["path"] == RUNTIME["annotations"]["prometheus.kserve.io/path"]
    assert str(SERVED["ports"][0]["containerPort"]) == RUNTIME["annotations"]["prometheus.kserve.io/port"]


def test_the_service_of_kserve_uses_the_runtime() -> None:
    model = ALL["InferenceService/demo"]["spec"]["predictor"]["model"]
    (supported,) = RUNTIME["supportedModelFormats"]

    assert "localrank" == model["runtime"]
    assert model["modelFormat"] == {name: supported[name] for name in ("name", "version")}
    assert model["protocolVersion"] in RUNTIME["protocolVersions"]
    assert "kserve-container" == SERVED["name"], "KServe looks for this name"


# --- What needs packages that tests do not. ---


def fields(wheel: zipfile.ZipFile, model: str) -> dict[str, str]:
    """The fields of one of KServe's models and their types, as its Python client declares them."""
    text = (
        re.sub(r"(?<!^)(?=[A-Z])", "_", model)
        .lower()
        .replace("v1_alpha1", "v1alpha1")
        .replace("v1_beta1", "v1beta1")
    )
    source = wheel.read(f"kserve/models/{text}.py").decode()
    found = {
        target.id: ast.literal_eval(node.value)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        for target in node.targets
        if isinstance(target, ast.Name) and target.id in {"openapi_types", "attribute_map"}
    }
    return {found["attribute_map"][name]: kind for name, kind in found["openapi_types"].items()}


def check(value: Any, kind: str, wheel: zipfile.ZipFile, where: str) -> None:
    if listed := re.fullmatch(r"list\[(\w+)\]", kind):
        assert isinstance(value, list), where
        for position, one in enumerate(value):
            check(one, listed[1], wheel, f"{where}[{position}]")
    elif re.match(r"V1(alpha|beta)1", kind):
        known = fields(wheel, kind)
        for name, one in value.items():
            assert name in known, f"{where}: KServe has no field {name}"
            check(one, known[name], wheel, f"{where}.{name}")
    elif kind in {"str", "int", "bool"}:
        assert isinstance(value, {"str": str, "int": int, "bool": bool}[kind]), where


@pytest.mark.soak
def test_kserve_has_every_field(tmp_path: Path) -> None:
    """Its Python client is generated from the definitions that its controller installs."""
    run(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", tmp_path, "kserve>=0.15")
    (path,) = tmp_path.glob("kserve-*.whl")

    with zipfile.ZipFile(path) as wheel:
        check(RUNTIME, "V1alpha1ServingRuntimeSpec", wheel, "ServingRuntime.spec")
        check(
            ALL["InferenceService/demo"]["spec"],
            "V1beta1InferenceServiceSpec",
            wheel,
            "InferenceService.spec",
        )


@pytest.mark.soak
def test_the_service_monitor_fits_the_definition_of_the_operator(tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("needs npm")
    (tmp_path / "package.json").write_text('{"type": "module"}')
    subprocess.run(
        ["npm", "install", "--silent", "--no-audit", "@kubernetes-models/prometheus-operator@6"],
        cwd=tmp_path,
        check=True,
    )
    (tmp_path / "check.js").write_text(
        'import { ServiceMonitor } from "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor";\n'
        "new ServiceMonitor(JSON.parse(process.argv[2])).validate();\n"
    )
    good = ALL["ServiceMonitor/localrank"]
    bad = json.loads(json.dumps(good))
    bad["spec"]["endpoints"][0]["scrapeTimeout"] = 5

    codes = [
        subprocess.run(
            ["node", "check.js", json.dumps(one)], cwd=tmp_path, check=False, capture_output=True
        ).returncode
        for one in (good, bad)
    ]

    assert [0, 1] == codes


@pytest.mark.soak
def test_kustomize_builds_the_folder() -> None:
    kubectl = shutil.which("kubectl") or pytest.skip("needs kubectl (Debian: kubernetes-client)")

    built = list(yaml.safe_load_all(run(kubectl, "kustomize", FOLDER)))

    (deployment,) = (one for one in built if one["kind"] == "Deployment")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    assert JOB["spec"]["containers"][0]["image"] == image


#: Checks that do not fit, with the reason.
SKIPPED = {
    "CKV_K8S_14": "the kustomization sets the tag of the Deployment's image",
    "CKV_K8S_15": "tags of releases are never moved, so nothing is to be pulled again",
    "CKV_K8S_21": "the namespace is chosen when the folder is applied",
    "CKV_K8S_43": "the digest is that of your registry",
}


@pytest.mark.soak
def test_the_manifests_have_no_fault_that_checkov_knows(tmp_path: Path) -> None:
    """In an environment of its own, because it pins its dependencies."""
    python = fresh(tmp_path / "checkov")
    install(python, "checkov")

    said = run(
        *(
            python.with_name("checkov"),
            "--directory",
            FOLDER,
            "--framework",
            "kubernetes",
            "--compact",
            "--quiet",
        ),
        *("--skip-download", "--skip-check", ",".join(SKIPPED)),
    )

    assert not re.search(r"Failed checks: [1-9]", said)
