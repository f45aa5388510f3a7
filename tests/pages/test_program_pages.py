"""Pages whose snippets need no cluster: drivers, archives, keys, make; and where those of other pages are run."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from ordo.cli import run
from ordo.deploy.launcher import ROOT, find_ports
from ordo.pipeline.generate import LogShape, generate_log
from ordo.runtime.errors import StorageMissingError
from ordo.runtime.security.tokens import hash_token
from ordo.transport.driver.channels.settings_file import load_driver_settings
from ordo.transport.inspection.driver_folder import open_folder
from tests.cluster.integration.agreement import await_that
from tests.pages.background import in_background
from tests.pages.configuration import load_with
from tests.snippets import open_page

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]
COMPOSE = "tests/docker/test_compose.py"
IMAGE = "tests/docker/test_image.py"
OPERATOR = "tests/pages/test_operator_pages.py"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def commands_of(text: str) -> Iterator[list[str]]:
    """The words of each `ordo` command of a block, without the comments."""
    for line in text.replace("\\\n", " ").splitlines():
        words = shlex.split(line.partition(" > ")[0], comments=True)
        if words:
            assert words[0] == "ordo", line
            yield words[1:]


def type_in(text: str, **replaced: str) -> None:
    """Runs each command, with words of the page replaced by the test's own; each must succeed."""
    for words in commands_of(text):
        typed = [replaced.get(word, word) for word in words]
        assert run(typed) == 0, typed


def has_driver(directory: Path) -> bool:
    try:
        with open_folder(directory):
            return True
    except StorageMissingError:
        return False


def test_the_driver_page(folder: Path) -> None:
    with open_page("DRIVER.md") as page:
        (words,) = commands_of(page.take("sh", "ordo driver"))
        place = str(folder / "driver")
        words = [{"/dev/shm/aeron-orders": place, "1,2,3": "0,0,0"}.get(word, word) for word in words]
        with in_background(words, folder / "driver.log"):
            await_that(lambda: has_driver(folder / "driver"), "the driver")
            trace = page.take("sh", "ordo trace")
            type_in(trace, **{"/dev/shm/aeron-orders": place, "10": "0.2"})
        for words_of_block in ("threading_mode", "resolver_name"):
            text = re.sub(
                r"(_cpu) = \d", r"\1 = 0", page.take("toml", words_of_block)
            )  # this machine may have one core
            (folder / "driver.toml").write_text(text)
            assert load_driver_settings(folder / "driver.toml").directory
        assert load_with(folder, page.take("toml", "own_driver")).node.own_driver is False
        (folder / "encrypted.toml").write_text(page.take("toml", "[encryption]"))
        assert load_driver_settings(folder / "encrypted.toml").encryption_key_file.endswith("driver.key")
        page.run_by(
            "tests/transport/test_responses.py::test_the_documented_way", "responses =", "for image in requests"
        )


def test_the_archive_page(folder: Path) -> None:
    archive = str(folder / "archive")
    generate_log(archive, LogShape(messages=100))
    with open_page("ARCHIVE.md") as page:
        for words in commands_of(page.take("sh", "ordo archive list")):
            assert run([archive if word == "/data/archive" else word for word in words]) == 0, words
        (words,) = commands_of(page.take("sh", "ordo archive serve"))
        (port,) = find_ports(1)
        given = {"/data/archive": archive, "10.0.0.1:8010": f"127.0.0.1:{port}"}
        given["/dev/shm/aeron-archive"] = str(folder / "aeron")
        with in_background([given.get(word, word) for word in words], folder / "archive.log"):
            served = f"127.0.0.1:{port}"
            await_that(lambda: run(["archive", "list", "--endpoints", served]) == 0, "the archive")
            for remote in commands_of(page.take("sh", "--endpoints")):
                assert run([served if "20004" in word else word for word in remote]) == 0, remote
        tests = "tests/archive/test_async_client.py", "tests/archive/test_persistent_subscription.py"
        page.run_by(
            f"{tests[0]}::test_the_programs_of_the_page_run", "with ArchiveClient", "async with AsyncArchiveClient"
        )
        page.run_by(f"{tests[1]}::run_program_of_the_page", "PersistentSubscription")


def somebody(word: str) -> str:
    """A word of a command, with a key of the page's, which is cut, made whole."""
    if not word.startswith("x25519:"):
        return word
    return "x25519:" + base64.b64encode(hashlib.sha256(word.encode()).digest()).decode().rstrip("=")


def type_keys(text: str) -> None:
    for words in commands_of(text):
        assert run([somebody(word) for word in words]) == 0, words


def test_the_security_page(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with open_page("SECURITY.md") as page:
        token = page.take("toml", "[[tokens]]").replace("sha256:<salt>:<digest>", hash_token("t" * 40))
        assert load_with(folder, token).tokens[0].principal == "desk-7"
        new_token, _ = commands_of(page.take("sh", "new-token"))
        page.run_by(f"{OPERATOR}::test_orders_from_elsewhere")  # the other line
        capsys.readouterr()
        assert run(new_token) == 0
        assert load_with(folder, capsys.readouterr().out).tokens[0].principal == "root"
        type_keys(page.take("sh", "ordo keys new"))
        (folder / "made" / "trusted.keys").write_text((folder / "trusted.keys").read_text())
        (folder / "trusted.keys").unlink()  # what follows names one of its keys otherwise
        type_keys(page.take("sh", "--role ingress"))
        encryption = page.take("toml", "[encryption]")
        assert load_with(folder, encryption).encryption.key_file is not None
        assert load_with(folder, encryption + page.take("toml", "by_key")).authentication.by_key


def test_the_page_on_hacking_names_what_there_is() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    with open_page("HACKING.md") as page:
        *blocks, folders = page.take_all("sh")
        commands = "".join(blocks)
        named = re.findall(r"^(?:[A-Z_]+=\S+ )*make ([\w-]+)(?: (?:SUITE|NAME)=(\S+))?", commands, re.MULTILINE)
        assert len(named) > 20 and {"-".join(filter(None, words)) for words in named} <= targets
        assert (ROOT / ".ci" / "run").exists() and ".ci/run" in commands
        assert all((ROOT / path).exists() for path in re.findall(r"\btests/\w+\b", folders))


def test_where_blocks_of_other_pages_are_run() -> None:
    with open_page("CONSOLE.md") as page:
        page.run_by(f"{OPERATOR}::test_a_gateway_with_a_console", "--console 8080")
        watching = "tests/gateway/watching/test_watching.py"
        page.run_by(f"{watching}::test_the_page_s_curl_and_its_client_in_python", "curl -N", "ws_connect")
        page.run_by(f"{watching}::test_a_browser_watches", "EventSource")
    with open_page("GATEWAY.md") as page:
        page.run_by("tests/gateway/test_example.py::test_the_example_runs_with_the_contract_alone", "protoc")
        page.run_by(f"{OPERATOR}::test_a_gateway_with_a_console", "--listen")
        workers = "tests/gateway/test_workers.py::test_workers_share_the_callers_and_one_that_is_killed_is_replaced"
        page.run_by(workers, "--workers")
        test = "tests/gateway/test_calls.py::test_grpcurl_finds_the_contract_by_reflection"
        page.run_by(test, "Sequencer/Submit", "LookAtMembers")
        test = "tests/gateway/test_administration.py::test_a_call_consumes_what_another_one_has_left"
        page.run_by(test, "BeginConsuming")
        test = "tests/gateway/test_clients.py::test_a_client_loses_and_doubles_nothing"
        page.run_by(
            test, "ORDO_GATEWAYS", *(f"examples/clients/{name}" for name in ("go", "java", "typescript", "rust"))
        )
    with open_page("DEPLOYMENT.md") as page:
        page.run_by(f"{IMAGE}::test_the_image_is_small_and_its_user_is_nobody", "-t ordo .", "BUILD_IMAGE=my/")
        page.run_by(f"{IMAGE}::test_a_package_comes_with_an_image_of_its_own", "docker build -t tally examples/image")
        page.run_by(f"{IMAGE}::test_a_package_is_installed_by_its_name", "by-name.Dockerfile")
        page.run_by(f"{IMAGE}::test_a_package_comes_on_a_volume", "docker run -v")
        page.run_by(f"{COMPOSE}::test_three_containers_elect_and_serve_with_default_limits", "up -d\n")
        page.run_by("tests/pages/test_cluster_pages.py::test_a_client_in_the_network_of_containers", "import socket")
        page.run_by(
            f"{COMPOSE}::test_containers_are_upgraded_one_by_one_while_a_client_goes_on", "ORDO_IMAGE=tally:1.1"
        )
        page.run_by(
            "tests/docker/test_deploy_docker.py::test_a_cluster_is_started_scaled_upgraded_and_removed", "scale 5"
        )
        test = "tests/deploy/test_deploy.py::test_the_page_writes_configurations_of_containers"
        page.run_by(test, "--profile container")
        page.run_by(
            "tests/deploy/test_kubernetes.py::test_kubectl_applies_the_folder_and_pods_mount_what_it_made_of_the_configurations",
            "kubectl apply",
        )
        kubernetes = "tests/kubernetes/test_manifests.py"
        with_keys = f"{kubernetes}::test_with_keys_of_its_own_the_cluster_goes_on_for_whom_it_trusts"
        page.run_by(with_keys, "ordo keys new", "ordo-client-key", "kubectl delete statefulset")
        page.run_by(f"{kubernetes}::test_a_prometheus_without_rights_finds_the_members", "dns_sd_configs")
        page.run_by(f"{kubernetes}::test_maintenance_takes_one_node_at_a_time", "kubectl drain")
        page.run_by("tests/deploy/test_deploy.py::test_the_commands_of_the_page_install_the_unit", "useradd")
