"""Clients of the gateway in other languages: one in Java, generated from the contract, and grpcurl."""

from __future__ import annotations

import hashlib
import platform
import shutil
import subprocess
from pathlib import Path

from benchmarks.go_peers import build_programs
from ordo.deploy.launcher import ROOT
from tests.peers.java_peer import JavaPeers, compile_java, run_maven
from tests.peers.peer_process import PeerFailedError, cache_folder, only_one

JAVA_SOURCES = Path(__file__).with_name("java")
CONTRACT = ROOT / "service_api" / "ordo.proto"
PLATFORMS = {"x86_64": "linux-x86_64", "aarch64": "linux-aarch_64"}
GENERATE_TIMEOUT_S = 60
GRPCURL_VERSION = "v1.8.9"
GRPCURL = "github.com/fullstorydev/grpcurl/cmd/grpcurl"


def java_client() -> JavaPeers:
    """Runs `GatewayClient`. Its libraries are fetched, and it is generated and compiled, the first time.

    Raises PeerMissingError.
    """
    digest = hashlib.sha256()
    for source in (CONTRACT, *sorted(JAVA_SOURCES.iterdir())):
        digest.update(source.read_bytes())
    folder = cache_folder() / f"gateway-client-{digest.hexdigest()[:16]}"
    with only_one():
        if not folder.is_dir():
            partial = cache_folder() / "partial-gateway-client"
            shutil.rmtree(partial, ignore_errors=True)
            _build_java_client(partial)
            for old in cache_folder().glob("gateway-client-*"):
                shutil.rmtree(old, ignore_errors=True)
            partial.rename(folder)
    return JavaPeers(folder / "libraries" / "*", folder / "classes")


def _build_java_client(folder: Path) -> None:
    libraries, generated = folder / "libraries", folder / "generated"
    generated.mkdir(parents=True)
    target = PLATFORMS[platform.machine()]
    pom = ("-f", str(JAVA_SOURCES / "pom.xml"), f"-Dplatform={target}")
    run_maven(*pom, "dependency:copy-dependencies", f"-DoutputDirectory={libraries}")
    (protoc,) = libraries.glob(f"protoc-[0-9]*-{target}.exe")
    (plugin,) = libraries.glob(f"protoc-gen-grpc-java-*-{target}.exe")
    for program in (protoc, plugin):
        program.chmod(0o755)
    command = [protoc, f"--plugin=protoc-gen-grpc-java={plugin}", f"-I{CONTRACT.parent}", CONTRACT.name]
    command += [f"--java_out={generated}", f"--grpc-java_out=@generated=omit:{generated}"]
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, timeout=GENERATE_TIMEOUT_S, check=False
    )
    if done.returncode:
        raise PeerFailedError(f"protoc: {done.stderr}")
    sources = [*generated.rglob("*.java"), *JAVA_SOURCES.glob("*.java")]
    compile_java(sources, str(libraries / "*"), folder / "classes")


def grpcurl() -> str:
    """A client in Go that knows nothing of Ordo; built the first time, which takes a minute. Raises GoMissingError."""
    folder = cache_folder().parent / "go-peers" / f"grpcurl-{GRPCURL_VERSION}"
    with only_one():
        build_programs(folder, {"grpcurl": (f"{GRPCURL}@{GRPCURL_VERSION}", GRPCURL)})
    return str(folder / "grpcurl")
