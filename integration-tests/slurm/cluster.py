"""A Slurm cluster in containers with Lacuna beside it: made, started, used, removed.

Runs on this machine. It needs Docker with compose, and Lacuna's binaries.
"""

import json
import os
import shutil
import subprocess
import sys
import time
from dataclasses import replace

from layout import HERE, ROOT, Layout

PROGRAMS = ["ingest", "forecast", "planner", "control", "agent", "pilot-helper"]
BINARIES = ROOT / os.environ.get("LACUNA_BINARIES", "target/release")
# From the start of the containers until all nodes are idle; measured: 6 s with 16 nodes, 6 s
# with 256 in one container, on two cores.
UP_LIMIT = 120.0


class ClusterError(Exception):
    """The cluster cannot run: the reason, and its exit code."""

    def __init__(self, code: int, text: str):
        super().__init__(text)
        self.code = code


def say(text: str) -> None:
    print(f"slurm: {text}", file=sys.stderr, flush=True)


def run(*command: str, check: bool = True, limit: float = 60.0, **more) -> subprocess.CompletedProcess:
    """A command on this machine, its output as text, bounded in time."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=limit, **more)
    except FileNotFoundError:
        raise ClusterError(69, f"{command[0]} is not installed") from None
    except subprocess.TimeoutExpired:
        raise ClusterError(1, f"no end after {limit:.0f} s: {' '.join(command)}") from None
    if check and done.returncode != 0:
        tail = "\n".join((done.stderr or done.stdout).strip().splitlines()[-8:])
        raise ClusterError(1, f"{' '.join(command[:4])} ... failed ({done.returncode}): {tail}")
    return done


def need_docker() -> None:
    """Raises with exit code 69 where no engine answers."""
    if shutil.which("docker") is None:
        raise ClusterError(69, "docker is not installed: apt-get install docker.io docker-compose")
    if run("docker", "info", check=False).returncode != 0:
        raise ClusterError(69, "no Docker engine answers: start dockerd, or join the group docker")


def compose_command() -> list[str]:
    if run("docker", "compose", "version", check=False).returncode == 0:
        return ["docker", "compose"]
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    raise ClusterError(69, "neither 'docker compose' nor docker-compose is installed: apt-get install docker-compose")


def base_image() -> str:
    """The base image: pulled, or made where no registry can be reached."""
    release = "bookworm"
    with open("/etc/os-release", encoding="utf-8") as file:
        facts = dict(line.rstrip().split("=", 1) for line in file if "=" in line)
    if facts.get("ID") == "debian":
        release = facts.get("VERSION_CODENAME", release)
    name = os.environ.get("LACUNA_BASE_IMAGE", f"debian:{release}-slim")
    here = run("docker", "image", "inspect", name, check=False).returncode == 0
    if not here and run("docker", "pull", "-q", name, check=False, limit=300).returncode != 0:
        made = run(str(ROOT / "deploy/up.sh"), "base-image", check=False, limit=300)
        if made.returncode != 0:
            raise ClusterError(made.returncode, made.stderr.strip())
    return name


class Cluster:
    """One cluster in containers. It works on copies of the repository's files, so a later build
    changes nothing."""

    def __init__(self, layout: Layout):
        self.layout = layout

    # --- up and down

    def image(self) -> None:
        base = base_image()
        started = time.monotonic()
        self.build(base, self.layout.image, "Dockerfile")
        if self.layout.accounting:
            self.build(self.layout.image, self.layout.runs, "Dockerfile.accounting")
        if time.monotonic() - started > 5:
            say(f"image {self.layout.runs} made in {time.monotonic() - started:.0f} s")
        if run("docker", "run", "--rm", "--network", "none", self.layout.runs, "true", check=False).returncode != 0:
            raise ClusterError(75, "the Docker engine cannot run a container")

    @staticmethod
    def build(base: str, name: str, file: str) -> None:
        # From standard input, since the image needs no file of the repository.
        build = ["docker", "build", "-q", "--build-arg", f"BASE_IMAGE={base}", "-t", name, "-"]
        run(*build, limit=900, input=(HERE / file).read_text())

    def stage(self) -> None:
        """Binaries, the Python package, hooks and Slurm's configuration, where containers see them."""
        state = self.layout.state
        for name in ["bin", "py", "hooks", "etc", "conf"]:
            shutil.rmtree(state / name, ignore_errors=True)
            (state / name).mkdir(parents=True)
        for name in ["lacuna", *(f"lacuna-{program}" for program in PROGRAMS)]:
            self.copy(BINARIES / name, state / "bin" / name)
        self.copy(ROOT / ".cache/bin/nats-server", state / "bin/nats-server")
        package = ROOT / "libs/lacuna-py/src/lacuna"
        if package.is_dir():
            shutil.copytree(package, state / "py/lacuna", ignore=shutil.ignore_patterns("__pycache__"))
            examples = ROOT / "libs/lacuna-py/examples"
            if examples.is_dir():
                shutil.copytree(examples, state / "py/examples", ignore=shutil.ignore_patterns("__pycache__"))
        for file in (ROOT / "deploy/slurm").iterdir():
            shutil.copy2(file, state / "hooks" / file.name)
        (state / "etc/slurm.conf").write_text(self.layout.slurm_conf())
        shutil.copy2(HERE / "lacuna.toml", state / "conf/lacuna.toml")
        conf = [state / "bin/lacuna", "config", "nats-server", "--store", "/var/lib/lacuna/nats"]
        conf += ["--listen", "0.0.0.0:4222", "--monitor", "127.0.0.1:8222"]
        (state / "conf/nats.conf").write_text(run(*map(str, conf)).stdout)
        (state / "conf/hook.conf").write_text(f"nats={self.layout.address(0)}:4222\n")
        (state / "compose.json").write_text(json.dumps(self.layout.compose(), indent=1))
        (state / "layout.json").write_text(json.dumps(vars(self.layout)))

    @staticmethod
    def copy(source, to) -> None:
        if not source.is_file():
            raise ClusterError(69, f"{source} is missing: make build (and deploy/setup/setup.sh nats)")
        shutil.copy2(source, to)

    def compose(self, *arguments: str, limit: float = 180.0) -> None:
        file = str(self.layout.state / "compose.json")
        run(*compose_command(), "-p", self.layout.project, "-f", file, *arguments, limit=limit)

    def up(self) -> float:
        """Starts the cluster and waits until all nodes are idle; returns the seconds from the start."""
        need_docker()
        if not os.environ.get("LACUNA_SKIP_CARGO"):
            run("deploy/setup/setup.sh", "nats", cwd=ROOT, limit=300)
            # As `make test` builds it: programs alone have other features, and would be compiled again.
            build = ["cargo", "build", "--release", "--locked", "--workspace", "--bins", "--tests"]
            subprocess.run(build, cwd=ROOT, check=True)
        self.image()
        self.down()
        self.stage()
        started = time.monotonic()
        try:
            self.compose("up", "-d", "--no-build")
            self.wait_idle(UP_LIMIT)
        except BaseException:
            self.down()
            raise
        return time.monotonic() - started

    def down(self) -> None:
        """Ends all containers of the project and forgets its volume. Nothing to do is no error."""
        (self.layout.state / "layout.json").unlink(missing_ok=True)
        project = f"label=com.docker.compose.project={self.layout.project}"
        for what, remove in [
            (["ps", "-aq"], ["rm", "-f", "-v"]),
            (["network", "ls", "-q"], ["network", "rm"]),
            (["volume", "ls", "-q"], ["volume", "rm"]),
        ]:
            found = run("docker", *what, "--filter", project).stdout.split()
            if found:
                run("docker", *remove, *found, check=False, limit=180)

    # --- use

    def docker_exec(
        self, container: str, *command: str, user: str = "root", interactive: bool = False, **more
    ) -> subprocess.CompletedProcess:
        """A command in a container."""
        options = ["-i"] if interactive else []
        return run("docker", "exec", *options, "-u", user, container, *command, **more)

    def ctl(self, *command: str, **more) -> subprocess.CompletedProcess:
        """A command beside the controller."""
        return self.docker_exec(self.layout.container("ctl"), *command, **more)

    def everywhere(self, *command: str) -> None:
        """A command in every container."""
        for container in self.layout.containers:
            self.docker_exec(container, *command)

    @staticmethod
    def docker(action: str, container: str) -> None:
        """Kills or starts a container."""
        run("docker", action, container)

    def pause(self, node: str) -> None:
        """Freezes all processes of a node, without notice."""
        run("docker", "pause", self.layout.container(node))

    def unpause(self) -> None:
        """Lets every container that a test has paused go on."""
        for container in self.layout.containers:
            run("docker", "unpause", container, check=False)

    def configure(self, *changes: tuple[str, str]) -> str:
        """Replaces text of lacuna.toml, and returns all of it as it was before."""
        file = self.layout.state / "conf/lacuna.toml"
        before = text = file.read_text()
        for old, new in changes:
            if old not in text:
                raise ClusterError(1, f"lacuna.toml has no {old!r}")
            text = text.replace(old, new)
        file.write_text(text)
        return before

    def hooks(self, wanted: bool) -> None:
        """Switches prolog and epilog on or off on all nodes."""
        conf = replace(self.layout, hooks=wanted).slurm_conf()
        (self.layout.state / "etc/slurm.conf").write_text(conf)
        self.ctl("scontrol", "reconfigure")

    def states(self) -> dict[str, str]:
        """The state of each node as sinfo names it; empty while the controller does not answer."""
        said = self.ctl("sinfo", "-h", "-N", "-p", "batch", "-o", "%N %T", check=False)
        return dict(line.split() for line in said.stdout.splitlines() if len(line.split()) == 2)

    def wait_answers(self, limit: float) -> None:
        """Returns when slurmctld answers."""
        end = time.monotonic() + limit
        while not self.states():
            if time.monotonic() > end:
                raise ClusterError(1, f"slurmctld does not answer within {limit:.0f} s")
            time.sleep(0.25)

    def wait_idle(self, limit: float) -> None:
        """Returns when Slurm says that every node is idle."""
        end = time.monotonic() + limit
        while True:
            states = self.states()
            if len(states) == self.layout.nodes and set(states.values()) == {"idle"}:
                return
            if time.monotonic() > end:
                counts = {state: list(states.values()).count(state) for state in set(states.values())}
                raise ClusterError(1, f"not all of {self.layout.nodes} nodes are idle after {limit:.0f} s: {counts}")
            time.sleep(0.25)


def load(project: str | None = None) -> Cluster:
    """The running cluster."""
    layout = Layout() if project is None else Layout(project=project)
    try:
        return Cluster(Layout(**json.loads((layout.state / "layout.json").read_text())))
    except FileNotFoundError:
        raise ClusterError(1, "no cluster runs: make slurm-up") from None
