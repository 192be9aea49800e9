"""The Dockerfile's steps in a bare Debian root: what can be known of the images without a container engine.

`debootstrap` makes the root from Debian's packages, with Debian's Python of the version that the Dockerfile names. It
stands in for ``python:3.13-slim``, which is Debian as well; the Python of that image is compiled by its makers, this one
by Debian. The instructions are read from the Dockerfile and run in a chroot with namespaces of its own. Instructions that
the Dockerfile does not use are not known here and end the build.

Needs root, `debootstrap` and Debian's package servers.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

ROOT = Path(__file__).parents[2]
#: The release of Debian that the base image stands on, and the Python that it has.
SUITE, PYTHON = "trixie", "3.13"
MIRROR = "http://deb.debian.org/debian"


@dataclass(frozen=True, slots=True)
class Image:
    """A root with what a container started from it would get.

    Attributes:
        root: its file system.
        env, user, workdir, entrypoint, command, volumes, healthcheck: as the Dockerfile says.
    """

    root: Path
    env: Mapping[str, str] = field(default_factory=dict)
    user: str = "0:0"
    workdir: str = "/"
    entrypoint: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    volumes: tuple[str, ...] = ()
    healthcheck: tuple[str, ...] = ()


def instructions(text: str) -> list[tuple[str, str]]:
    """Return the instructions of a Dockerfile and their arguments, comments and continued lines resolved."""
    lines = [line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\s*\\\n\s*", " ", "\n".join(lines))
    return [(line.split(None, 1)[0].upper(), line.split(None, 1)[1].strip()) for line in joined.splitlines()]


def bare(place: Path) -> Image:
    """Make the root that stands in for the base image."""
    packages = "python3,python3-pip,ca-certificates"
    run("debootstrap", "--variant=minbase", f"--include={packages}", SUITE, str(place), MIRROR)
    # The base image calls it so, and lets pip install for everybody.
    (place / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    (place / f"usr/lib/python{PYTHON}/EXTERNALLY-MANAGED").unlink()
    shutil.copy("/etc/resolv.conf", place / "etc/resolv.conf")
    return Image(place, {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"})


def build(base: Image, place: Path) -> dict[str, Image]:
    """Run the Dockerfile's steps, each stage in a copy of what it starts from; return all stages."""
    stages: dict[str, Image] = {}
    name, image = "", base
    for instruction, rest in instructions((ROOT / "Dockerfile").read_text()):
        if instruction == "FROM":
            origin, name = re.fullmatch(r"(\S+) AS (\S+)", rest, re.IGNORECASE).groups()  # type: ignore[union-attr]
            image = copied(stages.get(origin, base), place / name)
        elif instruction != "ARG":
            image = step(image, instruction, rest, stages)
        if name:
            stages[name] = image
    return stages


def copied(image: Image, place: Path) -> Image:
    run("cp", "--archive", "--reflink=auto", str(image.root), str(place))
    return replace(image, root=place)


def step(image: Image, instruction: str, rest: str, stages: Mapping[str, Image]) -> Image:
    """Apply one instruction."""
    match instruction:
        case "RUN":
            mounts = {}
            while found := re.match(r"--mount=type=bind,from=(\w+),source=(\S+?),target=(\S+) ", rest):
                mounts[found[3]] = stages[found[1]].root / found[2].lstrip("/")
                rest = rest[found.end() :].strip()
            with started(image, ("/bin/sh", "-c", rest), mounts=mounts, network=True) as process:
                output, _ = process.communicate()
            if process.returncode:
                raise RuntimeError(f"RUN {rest}: exit code {process.returncode}\n{output[-4000:]}")
        case "COPY":
            copy(image, rest)
        case "ENV":
            return replace(image, env={**image.env, **dict(word.split("=", 1) for word in shlex.split(rest))})
        case "USER":
            return replace(image, user=rest)
        case "WORKDIR":
            (image.root / rest.lstrip("/")).mkdir(parents=True, exist_ok=True)
            return replace(image, workdir=rest)
        case "VOLUME":
            return replace(image, volumes=(*image.volumes, rest))
        case "ENTRYPOINT":
            return replace(image, entrypoint=tuple(json.loads(rest)))
        case "CMD":
            return replace(image, command=tuple(json.loads(rest)))
        case "HEALTHCHECK":
            return replace(image, healthcheck=tuple(json.loads(rest[rest.index("[") :])))
        case "EXPOSE":
            pass
        case _:
            raise ValueError(
                f"the Dockerfile has an instruction that is not known here: {instruction} {rest}"
            )
    return image


def copy(image: Image, rest: str) -> None:
    """Copy from the build's context, which is what is under version control but for .dockerignore."""
    owner = re.match(r"--chown=(\d+):(\d+) ", rest)
    *sources, target = rest[owner.end() if owner else 0 :].split()
    place = image.root / (target if target.startswith("/") else f"{image.workdir}/{target}").lstrip("/")
    for source in sources:
        for name in context():
            if name != source and not name.startswith(f"{source}/"):
                continue
            inside = place / (Path(name).relative_to(source) if name != source else Path(name).name)
            inside.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, inside)
    if owner:
        for path in (place, *place.rglob("*")):
            os.chown(path, int(owner[1]), int(owner[2]))


def context() -> list[str]:
    """Return the files that the build sees."""
    rules = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line]
    listed = run("git", "-C", str(ROOT), "ls-files", "-z").split("\0")

    def kept(name: str) -> bool:
        places = [name, *map(str, Path(name).parents)]
        ignored = False
        for rule in rules:
            pattern = rule.lstrip("!").replace("**/", "*")
            if any(fnmatch.fnmatch(place, pattern) for place in places):
                ignored = not rule.startswith("!")
        return not ignored

    return [name for name in listed if name and kept(name)]


@contextmanager
def started(
    image: Image,
    command: tuple[str, ...],
    *,
    env: Mapping[str, str] | None = None,
    mounts: Mapping[str, Path] | None = None,
    read_only: tuple[str, ...] = (),
    network: bool = False,
    sealed: bool = False,
) -> Iterator[subprocess.Popen[str]]:
    """Run a command in the image's root, as its user, with namespaces of its own for mounts and processes.

    Args:
        image: where.
        command: what.
        env: more variables than the image has.
        mounts: folders that are mounted into the root.
        read_only: those of them that cannot be written to.
        network: whether pip is told where this machine's pip looks.
        sealed: as compose.yaml runs it: a read-only root with a /tmp of its own, no capabilities, no new privileges.
    """
    settings, more = pip_settings() if network else ({}, {})
    root = shlex.quote(str(image.root))
    script = ["set -e", f"mount --bind {root} {root}"]
    for target, source in {**more, **(mounts or {})}.items():
        (image.root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)
        script.append(f"mount --bind {shlex.quote(str(source))} {root}{shlex.quote(target)}")
    script += [f"mount -o remount,bind,ro {root}{shlex.quote(target)}" for target in read_only]
    script += [f"mount -t proc proc {root}/proc", f"mount --bind /dev {root}/dev"]
    if sealed:
        script += [f"mount -o remount,bind,ro {root}", f"mount -t tmpfs tmpfs {root}/tmp"]
    user, group = image.user.split(":")
    drop = ["--bounding-set=-all", "--no-new-privs"] if sealed else []
    variables = [f"{name}={value}" for name, value in {**image.env, **settings, **(env or {})}.items()]
    # Ids are changed outside of the root, where setpriv is known to be; chroot needs to come first.
    inside = [
        "setpriv",
        f"--reuid={user}",
        f"--regid={group}",
        "--clear-groups",
        *drop,
        "env",
        "-i",
        *variables,
    ]
    inside += ["sh", "-c", f'cd {shlex.quote(image.workdir)} && exec "$@"', "sh", *command]
    script.append(f"exec chroot {root} {shlex.join(inside)}")
    process = subprocess.Popen(
        ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", "\n".join(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def pip_settings() -> tuple[dict[str, str], dict[str, Path]]:
    """Return this machine's settings of pip as variables, and the folders that they name."""
    listed = run(sys.executable, "-m", "pip", "config", "list")
    settings = dict(re.findall(r"^global\.([\w-]+)='(.*)'$", listed, re.MULTILINE))
    variables = {f"PIP_{name.replace('-', '_').upper()}": value for name, value in settings.items()}
    named = [word for value in settings.values() for word in value.split()]
    # An index refers to files beside itself.
    folders = [Path(word.removeprefix("file://")).parent for word in named if word.startswith("file://")]
    folders += [
        Path(word) if Path(word).is_dir() else Path(word).parent for word in named if word.startswith("/")
    ]
    return variables, {str(folder): folder for folder in folders if folder.is_dir()}


def run(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(
            f"{shlex.join(command)}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-4000:]}"
        )
    return done.stdout
