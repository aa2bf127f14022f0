"""The files of deploy/: complete, consistent with the program, and accepted by the tools that read them."""

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from typer.main import get_command

from app.base.metrics import REGISTRY
from app.cli import serve as serving
from app.cli import work as working
from app.models import metrics as of_models
from app.settings import Settings
from app.stream import metrics as of_sockets
from tests.cluster import DEPLOY, nginx_files, program, prometheus_files

assert of_models.REGISTRY is of_sockets.REGISTRY is REGISTRY

MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))


def documents(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text("utf-8")) if one]


def compose() -> dict[str, Any]:
    (read,) = documents(DEPLOY / "compose.yaml")
    return read


def series() -> set[str]:
    """Every name that the metrics may have in a query."""
    names = set()
    for metric in REGISTRY.collect():
        if metric.type == "counter":
            names.add(f"{metric.name}_total")
        elif metric.type == "histogram":
            names |= {f"{metric.name}_{part}" for part in ("bucket", "sum", "count")}
        else:
            names.add(metric.name)
    return names


def alerts() -> Iterator[dict[str, Any]]:
    for group in documents(DEPLOY / "prometheus" / "alerts.yml")[0]["groups"]:
        yield from group["rules"]


def panels() -> list[dict[str, Any]]:
    text = (DEPLOY / "grafana" / "dashboards" / "interintent.json").read_text("utf-8")
    return [panel for panel in json.loads(text)["panels"] if panel["type"] != "row"]


def queries() -> list[str]:
    shown = [target["expr"] for panel in panels() for target in panel["targets"]]
    return [*shown, *(alert["expr"] for alert in alerts())]


def test_every_metric_in_alerts_and_dashboard_is_one_of_ours() -> None:
    asked = {name for query in queries() for name in re.findall(r"\b(?:interintent|process)_\w+", query)}
    assert len(asked) > 20
    assert asked <= series()


def test_every_label_in_alerts_and_dashboard_is_one_of_that_metrics() -> None:
    labels: dict[str, set[str]] = {}
    for name in series():
        collector = REGISTRY._names_to_collectors.get(name)
        labels[name] = {"instance", "job", "le", *getattr(collector, "_labelnames", ())}
    seen = set()
    for query in queries():
        of_query = set()
        for name, chosen in re.findall(r"\b((?:interintent|process)_\w+)(?:\{([^}]*)\})?", query):
            asked = set(re.findall(r"(\w+)\s*(?:=|!)", chosen))
            assert asked <= labels[name], query
            of_query |= labels[name]
            seen |= asked
        for by in re.findall(r"\bby\s*\(([^)]*)\)", query):
            assert set(re.findall(r"\w+", by)) <= of_query, query
    assert {"status", "job"} <= seen


def test_the_dashboard_shows_what_an_operator_looks_for() -> None:
    shown = " ".join(target["expr"] for panel in panels() for target in panel["targets"])
    for metric in (
        *("games_open", "games_oldest_seconds", "game_seconds", "phase_seconds", "decisions_defaulted_total"),
        *("model_seconds", "model_tokens_total", "model_cost_total", "model_endpoint_away", "sockets_open"),
        *("database_connections", "loop_lag_seconds", "build_info"),
    ):
        assert f"interintent_{metric}" in shown
    assert len({panel["id"] for panel in panels()}) == len(panels())


@pytest.mark.long
def test_prometheus_accepts_its_files_and_every_query_of_the_dashboard(tmp_path: Path) -> None:
    main = prometheus_files(tmp_path, "key", ["127.0.0.1:1", "127.0.0.1:2"], ["127.0.0.1:3"])
    rules = [{"record": f"shown:{number}", "expr": query} for number, query in enumerate(queries())]
    shown = tmp_path / "shown.yml"
    shown.write_text(json.dumps({"groups": [{"name": "shown", "rules": rules}]}))
    for command in (["check", "config", str(main)], ["check", "rules", str(shown)]):
        done = subprocess.run([program("promtool"), *command], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_alerts_fire_when_they_should_and_not_before(tmp_path: Path) -> None:
    prometheus_files(tmp_path, "key", [], [])
    (tmp_path / "tests.yml").write_text(
        json.dumps(
            {
                "rule_files": ["alerts.yml"],
                "evaluation_interval": "1m",
                "tests": [
                    {
                        "interval": "1m",
                        "input_series": [
                            {"series": 'up{job="interintent-api",instance="a"}', "values": "1x60"},
                            {"series": 'up{job="interintent-worker",instance="w"}', "values": "1x30 0x30"},
                            {
                                "series": 'interintent_games_open{status="created",instance="a"}',
                                "values": "5x60",
                            },
                            {
                                "series": 'interintent_events_total{origin="played",instance="w"}',
                                "values": "0+10x30 300x30",
                            },
                            # That more games are created does not mean that any is played.
                            {
                                "series": 'interintent_events_total{origin="created",instance="a"}',
                                "values": "0+10x60",
                            },
                            # The first of its process, and of its cause: before it there is no such series.
                            {
                                "series": 'interintent_batches_suspended_total{cause="quota",instance="w"}',
                                "values": "_x19 1x40",
                            },
                        ],
                        "alert_rule_test": [
                            {"eval_time": "29m", "alertname": "InterIntentQueueStands", "exp_alerts": []},
                            {"eval_time": "29m", "alertname": "InterIntentNoWorker", "exp_alerts": []},
                            {"eval_time": "59m", "alertname": "InterIntentNoApi", "exp_alerts": []},
                            {"eval_time": "18m", "alertname": "InterIntentBatchSuspended", "exp_alerts": []},
                            {"eval_time": "59m", "alertname": "InterIntentBatchSuspended", "exp_alerts": []},
                        ],
                        "promql_expr_test": [
                            {
                                "eval_time": "25m",
                                "expr": 'count(ALERTS{alertstate="firing",'
                                'alertname="InterIntentBatchSuspended",cause="quota"})',
                                "exp_samples": [{"labels": "{}", "value": 1}],
                            },
                            {
                                "eval_time": "59m",
                                "expr": 'count(ALERTS{alertstate="firing",'
                                'alertname=~"InterIntent(QueueStands|NoWorker|ProcessDown)"})',
                                "exp_samples": [{"labels": "{}", "value": 3}],
                            },
                        ],
                    },
                    {
                        "interval": "1m",
                        "input_series": [
                            {"series": 'up{job="interintent-api",instance="a"}', "values": "1x60"},
                            {
                                "series": 'interintent_games_open{status="created",instance="a"}',
                                "values": "0x20 stale",
                            },
                        ],
                        "alert_rule_test": [
                            {"eval_time": "24m", "alertname": "InterIntentNoDatabase", "exp_alerts": []}
                        ],
                        "promql_expr_test": [
                            {
                                "eval_time": "30m",
                                "expr": 'count(ALERTS{alertstate="firing",'
                                'alertname="InterIntentNoDatabase"})',
                                "exp_samples": [{"labels": "{}", "value": 1}],
                            }
                        ],
                    },
                ],
            }
        )
    )
    done = subprocess.run(
        [program("promtool"), "test", "rules", "tests.yml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_nginx_accepts_its_configuration(tmp_path: Path) -> None:
    main = nginx_files(tmp_path, ["127.0.0.1:1", "127.0.0.1:2"], 10443, 10080)
    done = subprocess.run(
        [program("nginx"), "-t", "-p", str(tmp_path), "-c", str(main)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "warn" not in done.stderr


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_accepts_the_manifests(path: Path) -> None:
    for document in documents(path):
        kubernetes_validate.validate(document, "1.33", strict=True)
        assert document["kind"] == "Namespace" or document["metadata"]["namespace"] == "interintent"


def test_manifests_fit_together() -> None:
    every = {(one["kind"], one["metadata"]["name"]): one for path in MANIFESTS for one in documents(path)}
    for name in ("interintent-api", "interintent-worker"):
        pods = every["Deployment", name]["spec"]["template"]
        selected = every["Deployment", name]["spec"]["selector"]["matchLabels"]
        assert selected.items() <= pods["metadata"]["labels"].items()
        assert every["PodDisruptionBudget", name]["spec"]["selector"]["matchLabels"] == selected
        [container] = pods["spec"]["containers"]
        for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
            assert container[probe]["httpGet"]["path"] == path
        # A pod whose database is away or migrates waits; started again and again it would never be done.
        assert container.get("startupProbe", container["livenessProbe"])["httpGet"]["path"] == "/livez"
        drain = (
            container["args"][container["args"].index("--drain") + 1] if "--drain" in container["args"] else 5
        )
        assert pods["spec"]["terminationGracePeriodSeconds"] > int(drain)
        for source in container["envFrom"]:
            [(kind, named)] = source.items()
            assert ({"configMapRef": "ConfigMap", "secretRef": "Secret"}[kind], named["name"]) in every
    scaled = every["HorizontalPodAutoscaler", "interintent-worker"]["spec"]
    assert ("Deployment", scaled["scaleTargetRef"]["name"]) in every
    [metric] = scaled["metrics"]
    adapter = every["ConfigMap", "interintent-adapter-rules"]["data"]["config.yaml"]
    [rule] = yaml.safe_load(adapter)["externalRules"]
    assert rule["name"]["as"] == metric["external"]["metric"]["name"]
    assert set(re.findall(r"interintent_\w+", rule["metricsQuery"])) <= series()


def test_only_prometheus_reaches_the_port_of_the_workers() -> None:
    every = {(one["kind"], one["metadata"]["name"]): one for path in MANIFESTS for one in documents(path)}
    worker = every["Deployment", "interintent-worker"]["spec"]
    policy = every["NetworkPolicy", "interintent-worker"]["spec"]
    assert policy["podSelector"]["matchLabels"] == worker["selector"]["matchLabels"]
    assert policy["policyTypes"] == ["Ingress"]
    [rule] = policy["ingress"]
    [source] = rule["from"]
    assert source["namespaceSelector"]["matchLabels"]
    [container] = worker["template"]["spec"]["containers"]
    [port] = rule["ports"]
    assert port["port"] in {one["name"] for one in container["ports"]}


def commands() -> list[list[str]]:
    """Every command of ours that a file of deploy/ starts."""
    found = [list(map(str, one["command"])) for one in compose()["services"].values() if "command" in one]
    for path in MANIFESTS:
        for one in documents(path):
            pods = one.get("spec", {}).get("template", {}).get("spec", {})
            found += [container["args"] for container in pods.get("containers", [])]
    for unit in UNITS:
        for line in re.findall(r"^ExecStart=\S+/interintent (.*)$", unit.read_text("utf-8"), re.MULTILINE):
            found.append(["interintent", *line.replace("%i", "8001").split()])
    return [one for one in found if one[0] == "interintent"]


def test_the_commands_and_settings_exist() -> None:
    programs = {"serve": get_command(serving.commands), "work": get_command(working.commands)}
    seen = set()
    for command in commands():
        # Raises for an option or a value that the command does not take.
        programs[command[1]].make_context(command[1], command[2:])
        seen.add(command[1])
    assert seen == {"serve", "work"}
    known = {f"INTERINTENT_{name.upper()}" for name in Settings.model_fields} | {"DATABASE_URL"}
    named = set(compose()["x-interintent"]["environment"])
    for document in documents(DEPLOY / "kubernetes" / "settings.yaml"):
        if document["metadata"]["name"] == "interintent":
            named |= {**document.get("data", {}), **document.get("stringData", {})}.keys()
    named |= set(re.findall(r"^(\w+)=", (DEPLOY / "systemd" / "interintent.env.example").read_text(), re.M))
    assert named <= known


def test_compose_has_the_topology_and_every_file_that_it_mounts() -> None:
    services = compose()["services"]
    apis = [name for name in services if name.startswith("api-")]
    workers = [name for name in services if name.startswith("worker-")]
    assert (len(apis), len(workers)) == (2, 4)
    assert {"postgres", "nginx", "prometheus", "grafana"} <= services.keys()
    targets = {
        target
        for name in ("api", "worker")
        for entry in documents(DEPLOY / "prometheus" / f"targets-{name}.yml")[0]
        for target in entry["targets"]
    }
    assert targets == {f"{name}:8000" for name in apis} | {f"{name}:9100" for name in workers}
    volumes = compose()["volumes"]
    for service in services.values():
        for mount in service.get("volumes", []):
            source = mount.split(":")[0]
            # Certificates are the operator's own.
            assert source in volumes or source == "./tls" or (DEPLOY / source).exists(), source
    template = (DEPLOY / "nginx" / "interintent.conf.template").read_text("utf-8")
    assert set(re.findall(r"\$\{(\w+)\}", template)) == services["nginx"]["environment"].keys()
    wanted = set(re.findall(r"\$\{(\w+):\?", (DEPLOY / "compose.yaml").read_text("utf-8")))
    assert wanted <= set(re.findall(r"^(\w+)=", (DEPLOY / "env.example").read_text("utf-8"), re.MULTILINE))


class _Alive(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/livez" else 404)
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002  # its own
        pass


def test_checks_of_containers_ask_the_process_itself_whatever_the_proxy() -> None:
    image = re.search(r"HEALTHCHECK .* CMD (\[.*\])", (DEPLOY.parent / "Dockerfile").read_text("utf-8"))
    assert image is not None
    worker = compose()["services"]["worker-1"]["healthcheck"]["test"]
    for check, port in ((json.loads(image[1]), "8000"), (worker[1:], "9100")):
        with ThreadingHTTPServer(("127.0.0.1", 0), _Alive) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            words = [sys.executable, *(one.replace(port, str(server.server_port)) for one in check[1:])]
            # As Docker sets it for every container, if its own settings have one.
            environment = {**os.environ, "http_proxy": "http://127.0.0.1:1", "no_proxy": ""}
            try:
                done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
            finally:
                server.shutdown()
                thread.join()
        assert done.returncode == 0, done.stderr


def test_every_container_but_those_of_the_image_has_a_check_of_itself() -> None:
    # The APIs have the image's own.
    ports = {"nginx": 80, "prometheus": 9090, "grafana": 3000}
    for name, service in compose()["services"].items():
        if name.startswith("api-"):
            continue
        check = service["healthcheck"]
        assert check["test"][0] == "CMD"
        assert {"interval", "timeout", "retries"} <= check.keys()
        if name in ports:
            assert check["test"][-1].startswith(f"http://127.0.0.1:{ports[name]}/")
            # As Docker sets it for every container, a proxy must not be asked for it.
            assert {"--noproxy", "-Y"} & set(check["test"])


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_run_without_rights_and_have_time_to_stop(unit: Path) -> None:
    text = unit.read_text("utf-8")
    assert all(re.fullmatch(r"[#;].*|\[\w+\]|\w+=.*|", line) for line in text.splitlines())
    values = dict(re.findall(r"^(\w+)=(.*)$", text, re.MULTILINE))
    assert (values["User"], values["NoNewPrivileges"], values["ProtectSystem"]) == (
        "interintent",
        "yes",
        "strict",
    )
    if values.get("Restart") == "always":
        # Otherwise systemd gives up after a few ends in a row.
        assert values["StartLimitIntervalSec"] == "0"
    drain = re.search(r"--drain (\d+)", values["ExecStart"])
    if drain is not None:
        assert int(values["TimeoutStopSec"]) > int(drain[1])


def test_the_page_clones_where_the_units_can_see_it() -> None:
    page = (DEPLOY / "README.md").read_text("utf-8")
    hidden = {"ProtectHome=yes": ("/home", "/root", "/run/user"), "PrivateTmp=yes": ("/tmp",)}
    (clone,) = re.findall(r"`git clone <address> (/\S+)`", page)
    for unit in UNITS:
        for setting in set(unit.read_text("utf-8").splitlines()) & hidden.keys():
            assert all(f"`{place}`" in page for place in hidden[setting]), unit.name
            assert not clone.startswith(hidden[setting]), unit.name


def test_the_page_names_every_file_that_the_units_need_and_counts_the_alerts() -> None:
    page = (DEPLOY / "README.md").read_text("utf-8")
    example = (DEPLOY / "systemd" / "interintent.env.example").read_text("utf-8")
    needed = re.findall(r"^\w+_FILE=(\S+)$", example, re.MULTILINE)
    assert needed
    assert all(f"`{path}`" in page for path in needed)
    assert f"has {len(list(alerts()))}." in page
