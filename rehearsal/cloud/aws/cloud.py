"""The local AWS: state, front, server and machines put together, and what a rehearsal does to it by hand."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any

from rehearsal.cloud.aws import billing, codebuild, ecr, inventory, scheduler
from rehearsal.cloud.aws.alarms import Watching
from rehearsal.cloud.aws.autoscaling import Scaling
from rehearsal.cloud.aws.call import Json, Trouble
from rehearsal.cloud.aws.codebuild import Builds
from rehearsal.cloud.aws.ec2 import bodies, catalogue, lifecycle, network
from rehearsal.cloud.aws.ec2.fleet import Fleet
from rehearsal.cloud.aws.ec2.guest import GuestView
from rehearsal.cloud.aws.ecr import Registry
from rehearsal.cloud.aws.front import Front
from rehearsal.cloud.aws.http import HttpAnswer, request
from rehearsal.cloud.aws.identity import OPERATOR
from rehearsal.cloud.aws.logs import Logs
from rehearsal.cloud.aws.pace import Pace
from rehearsal.cloud.aws.sagemaker.book import Book
from rehearsal.cloud.aws.sagemaker.fleet import drain
from rehearsal.cloud.aws.server import HttpServer
from rehearsal.cloud.aws.ssm import associations, managed
from rehearsal.cloud.aws.ssm.agents import Agents
from rehearsal.cloud.aws.state import SessionService, StartSession, State
from rehearsal.cloud.clock import TurnedClock
from rehearsal.cloud.ledger import BillLedger, Price, unknown_price
from rehearsal.cloud.requests import RequestLog
from rehearsal.contracts import Machine, MachineFactory
from rehearsal.sagemaker.contracts import HostFactory, ImageBuilder, Images, RegistryGate

NOTICE_S = 120.0
"""What AWS gives between the notice of a reclaim and its end."""

PROVIDER_SERVICES = (
    "appautoscaling",
    "budgets",
    "cloudwatch",
    "codebuild",
    "ec2",
    "ecr",
    "iam",
    "logs",
    "s3",
    "s3control",
    "sagemaker",
    "scheduler",
    "secretsmanager",
    "servicequotas",
    "ssm",
    "sts",
)
"""As the official provider names them."""


class OwnError(Exception):
    """The local cloud itself went wrong; each line says how."""


class LocalAwsCloud:
    """A `rehearsal.contracts.LocalCloud`: one account, one region. Without a machine factory its instances are API only.

    Two of the same account cannot run in one process: moto keeps its state by account.
    """

    def __init__(
        self,
        machine_factory: MachineFactory | None = None,
        clock: TurnedClock | None = None,
        *,
        region: str = "us-east-1",
        account: str = "123456789012",
        price: Price = unknown_price,
        pace: Pace | None = None,
        stock: inventory.Inventory | None = None,
        start_session: StartSession | None = None,
    ) -> None:
        self.clock = clock or TurnedClock()
        self.ledger = BillLedger(self.clock, price)
        self.log = RequestLog()
        self.state = State(account, region, self.clock, self.ledger, price, stock or inventory.load(), pace or Pace())
        self.state.session_service = managed.starting(start_session) if start_session is not None else None
        self._front = Front(self.state, self.log, lambda: billing.settle(self.state))
        self.state.front, self.state.internal = self._front.answer, self._front.internal
        self.state.logs, self.state.watching, self.state.scaling = Logs(), Watching(), Scaling()
        self.state.ecr, self.state.codebuild, self.state.sagemaker = Registry(), Builds(), Book()
        self.state.fleet = Fleet(self.state, machine_factory, self._front.answer)
        self.state.agents = Agents(self.state, self._online)
        self._server = HttpServer(self._front.answer, self.clock)
        self.state.ecr.layers_at = lambda: self._server.base

    @property
    def region(self) -> str:
        """The one region."""
        return self.state.region

    @property
    def account(self) -> str:
        """The account's number."""
        return self.state.account

    def start(self) -> None:
        """Load moto, listen on a free loopback port; returns when it answers."""
        with self.state.lock:
            self.state.moto.load()
            catalogue.keep_region(self.region)
            catalogue.add_images(self.state)
            network.open_default(self.state)
            self.state.roles.add_managed(self.state.inventory.managed_policies)
            self.state.roles.changed()
        self.clock.start()
        self._server.start()

    def stop(self) -> None:
        """Delete every machine and stop listening. Safe to call twice."""
        self._server.stop()
        self.clock.stop()
        self.state.fleet.delete_all()
        for endpoint in self.state.sagemaker.endpoints.values():
            for made in endpoint.fleets:
                drain(made, 0.0)
        codebuild.wait(self.state, 30.0)

    def __enter__(self) -> LocalAwsCloud:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Stop. Raises OwnError when it answered what AWS's model forbids, or broke: a rehearsal against it proves nothing."""
        self.stop()
        if error is None and (wrong := self.own_errors()):
            raise OwnError("\n".join(wrong))

    @property
    def base(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return self._server.base

    def environment(self) -> Mapping[str, str]:
        """One endpoint for all services, the operator's keys and region; no file and no metadata server is asked for others."""
        return {
            "AWS_ENDPOINT_URL": self.base,
            "AWS_ACCESS_KEY_ID": OPERATOR.key_id,
            "AWS_SECRET_ACCESS_KEY": OPERATOR.secret,
            "AWS_REGION": self.region,
            "AWS_DEFAULT_REGION": self.region,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_CONFIG_FILE": "/dev/null",
            "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        }

    def stack_config(self) -> Mapping[str, str]:
        """Provider configuration for the official plugin and for its stand-in; `aws:endpoints` is JSON."""
        return {
            "aws:region": self.region,
            "aws:accessKey": OPERATOR.key_id,
            "aws:secretKey": OPERATOR.secret,
            "aws:endpoints": json.dumps([{name: self.base for name in PROVIDER_SERVICES}]),
            "aws:s3UsePathStyle": "true",
            "aws:skipMetadataApiCheck": "true",
            "aws:skipRequestingAccountId": "false",
            "aws:skipCredentialsValidation": "false",
        }

    def machines(self) -> Mapping[str, Machine]:
        """The machines that exist, by instance id (an EC2 instance has no name of its own)."""
        return self.state.fleet.machines()

    def requests(self) -> Sequence[Mapping[str, object]]:
        """Every request so far."""
        return self.log.as_mappings()

    def own_errors(self) -> Sequence[str]:
        """Answers of ours that AWS's model does not allow, and what failed in the background. Anything here is our fault."""
        answers = tuple(text for entry in self.log.entries() for text in entry.own_errors)
        return (*answers, *self.clock.problems, *self.state.problems)

    def request(self, method: str, target: str, headers: Mapping[str, str], body: bytes = b"") -> HttpAnswer:
        """Any request, in process, through the same checks and the same log."""
        return self._front.answer(request(method, target, headers, body))

    def _online(self) -> None:
        with self.state.lock:
            associations.came_online(self.state)

    def provider_sleep(self, seconds: float) -> None:
        """A provider waits: the clock is turned, and an operator who asks meanwhile turns nothing."""
        self.state.readers.sleep(seconds)

    # What a person did beforehand, or what happens to a cloud by itself.

    def call(self, service: str, operation: str, **params: object) -> Json:
        """An operation as the operator, in process and unlogged: what was there before. Raises AwsError."""
        return self._front.internal(service, operation, params)

    def put_secret(self, name: str, value: str) -> None:
        """A secret, or one more version of it."""
        if name in self.secret_names():
            self.call("secretsmanager", "PutSecretValue", SecretId=name, SecretString=value)
        else:
            self.call("secretsmanager", "CreateSecret", Name=name, SecretString=value)

    def secret_names(self) -> Sequence[str]:
        """The secrets that exist."""
        with self.state.lock:
            return tuple(s.name for s in self.state.moto.backend("secretsmanager").secrets.values() if not s.is_deleted())

    def drop_secret(self, name: str) -> None:
        """The secret was never there."""
        self.call("secretsmanager", "DeleteSecret", SecretId=name, ForceDeleteWithoutRecovery=True)

    def empty_secret(self, name: str) -> None:
        """Its value is a line end and nothing else: Secrets Manager takes no empty string."""
        self.call("secretsmanager", "PutSecretValue", SecretId=name, SecretString="\n")

    def drop_object(self, bucket: str, key: str) -> None:
        """The object was never there. Not by `call`: moto lets nobody delete or replace without a signature."""
        with self.state.lock:
            self.state.moto.backend("s3").delete_object(bucket, key)

    def put_volume(self, zone: str, *, size_gb: int = 100) -> str:
        """A volume that nobody's stack made: no tag, no instance. Its id."""
        return str(self.call("ec2", "CreateVolume", AvailabilityZone=zone, Size=size_gb, VolumeType="gp3")["VolumeId"])

    def publish_images(self) -> None:
        """The newer images of the inventory come out."""
        with self.state.lock:
            self.state.published |= {image.id for image in self.state.inventory.images}
            catalogue.add_images(self.state)

    def rename_parameter(self, parameter: str, image_id: str) -> None:
        """A public parameter names this image from now on. Raises KeyError for none of ours."""
        if self.state.image(image_id) is None:
            raise KeyError(image_id)
        with self.state.lock:
            self.state.renamed[parameter] = image_id

    def arm(self, trouble: Trouble) -> None:
        """The next calls that match go wrong; what was armed first goes first."""
        with self.state.lock:
            self.state.troubles.append(replace(trouble))

    def disarm(self) -> None:
        """Nothing goes wrong any more."""
        with self.state.lock:
            self.state.troubles.clear()

    def give_capacity(self, zone: str = "") -> None:
        """There is capacity again, in the zone or everywhere."""
        with self.state.lock:
            self.state.troubles = [t for t in self.state.troubles if not t.capacity or (zone and t.zone != zone)]

    def take_type(self, zone: str, instance_type: str) -> None:
        """The zone does not offer the type after all."""
        with self.state.lock:
            self.state.without_type.add((zone, instance_type))

    def take_family(self, zone: str, prefix: str) -> None:
        """The zone offers none of the types whose names begin so (`g5g.`)."""
        for name in catalogue.types(prefix):
            self.take_type(zone, name)

    def set_spot_price(self, instance_type: str, usd_per_hour: float) -> None:
        """The spot price of a type from now on, in every zone; what runs already is billed as before."""
        with self.state.lock:
            self.state.spot_now[instance_type] = usd_per_hour

    def set_quota(self, code: str, value: float) -> None:
        """A quota of the account, in vCPUs. Raises KeyError for one that is not in the inventory."""
        with self.state.lock:
            if code not in self.state.quotas:
                raise KeyError(code)
            self.state.quotas[code] = value

    def deny(self, action: str) -> None:
        """The operator lacks a permission (`ec2:RunInstances`, `iam:*`)."""
        with self.state.lock:
            self.state.denied.add(action)

    def delay_iam(self, seconds: float) -> None:
        """Changes of IAM made from now on are seen by the other services that much later, on the cloud's clock."""
        with self.state.lock:
            self.state.iam_delay = seconds

    def instances(self) -> Mapping[str, str]:
        """States of the instances that are described, by id."""
        with self.state.lock:
            return {i.id: str(i.state) for i in bodies.every(self.state)}

    def guest(self, instance_id: str) -> GuestView:
        """An instance's view of the cloud. Raises KeyError before it ran."""
        found = self.state.fleet.guest(instance_id)
        if found is None:
            raise KeyError(f"{instance_id} has not run yet")
        return found

    def advise(self, instance_id: str) -> None:
        """Rebalance advice, now. Raises KeyError before it ran."""
        self.guest(instance_id).advice_at = self.clock.now()

    def reclaim(self, instance_id: str, *, notice_s: float = NOTICE_S, advice: bool = True) -> None:
        """The cloud wants the spot instance back: advice and notice now, the end `notice_s` later on the clock.

        Raises KeyError before it ran, ValueError for an instance on demand: nobody reclaims one.
        """
        guest, now = self.guest(instance_id), self.clock.now()
        with self.state.lock:
            found: Any = bodies.find(self.state, instance_id)
            if found is None or found.lifecycle != "spot":
                raise ValueError(f"{instance_id} is no spot instance")
            if advice and guest.advice_at is None:
                guest.advice_at = now
            guest.notice_at, guest.ends_at = now, now + notice_s
            lifecycle.marked(self.state, instance_id)
        self.clock.at(now + notice_s, lambda: lifecycle.take_away(self.state, instance_id))

    def serve_sessions(self, service: SessionService) -> None:
        """Who answers for sessions from now on: of `rehearsal.ssm.Service` its `call`, told that the signature was checked."""
        with self.state.lock:
            self.state.session_service = service

    def serve_containers(
        self, host: HostFactory | None = None, builder: ImageBuilder | None = None, images: Images | None = None
    ) -> None:
        """What runs an endpoint's containers, what runs builds, and where images are; None leaves it as it is."""
        with self.state.lock:
            self.state.sagemaker.host = host or self.state.sagemaker.host
            self.state.codebuild.builder = builder or self.state.codebuild.builder
            self.state.ecr.images = images if images is not None else self.state.ecr.images

    def registry_gate(self) -> RegistryGate:
        """What the registry asks at each request."""
        return ecr.Gate(self.state)

    def take_endpoint_type(self, instance_type: str = "*") -> None:
        """There is no capacity of this type for endpoints; `*`: of none."""
        with self.state.lock:
            self.state.sagemaker.without.add(instance_type)

    def set_endpoint_quota(self, instance_type: str, instances: int) -> None:
        """How many instances of a type the account may have for endpoints."""
        with self.state.lock:
            self.state.sagemaker.quotas[instance_type] = instances

    def endpoints(self) -> Mapping[str, str]:
        """Status of each endpoint, by name."""
        with self.state.lock:
            return {name: found.status for name, found in self.state.sagemaker.endpoints.items()}

    def schedules(self) -> Mapping[str, float | None]:
        """The schedules that there are, and when each fires (epoch seconds; None: never, or again and again)."""
        with self.state.lock:
            return {name: scheduler.fires_at(schedule) for name, schedule in self.state.schedules.items()}

    def stored(self, bucket: str) -> Mapping[str, bytes]:
        """The objects of a bucket, by key. Raises KeyError without the bucket."""
        with self.state.lock:
            found: Any = self.state.moto.backend("s3").buckets[bucket]
            return {name: bytes(found.keys[name].value) for name in found.keys}
