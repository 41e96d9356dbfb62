"""What AWS takes as a name, an id, a range. Each function gives its text back or raises ValueError in words for the operator."""

from __future__ import annotations

import ipaddress
import re

_REGION = re.compile(r"[a-z]{2}(-[a-z]+)+-\d")
_ZONE = re.compile(r"[a-z]{2}(-[a-z]+)+-\d[a-z]")
_TYPE = re.compile(r"[a-z][a-z0-9-]*\.[a-z0-9-]+")
_HOSTED = re.compile(r"[a-z][a-z0-9-]*(\.[a-z0-9-]+){1,2}")
_AMI = re.compile(r"ami-[0-9a-f]{8,17}")
_PARAMETER = re.compile(r"/[\w./-]{1,1010}", re.ASCII)
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_PROFILE = re.compile(r"[\w+=,.@-]{1,128}", re.ASCII)
_VPC = re.compile(r"vpc-[0-9a-f]{8,17}")
_SUBNET = re.compile(r"subnet-[0-9a-f]{8,17}")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_RELEASE = re.compile(r"\d+\.\d+(\.\d+)?((a|b|rc)\d+)?(\.post\d+)?")
_ROLE = re.compile(r"arn:aws[a-z-]*:iam::\d{12}:role/[\w+=,.@/-]{1,512}", re.ASCII)
_REPOSITORY = re.compile(r"(?=.{2,256}$)[a-z0-9]+([._/-][a-z0-9]+)*")
_SECRET = re.compile(r"[\w/+=.@-]{1,512}", re.ASCII)
_SECRET_TAIL = re.compile(r"-[A-Za-z0-9]{6}$")


def region(text: str) -> str:
    """Such as us-east-1."""
    return _fits(_REGION, text, "write a region such as us-east-1")


def zone(text: str) -> str:
    """Such as us-east-1a."""
    return _fits(_ZONE, text, "write a zone such as us-east-1a")


def machine_type(text: str) -> str:
    """Such as g5g.xlarge."""
    return _fits(_TYPE, text, "write a machine type such as g5g.xlarge")


def hosted_type(text: str) -> str:
    """Such as ml.g4dn.xlarge. One without ml. is left to the rule that says where it is found."""
    return _fits(_HOSTED, text, "write a machine type such as ml.g4dn.xlarge")


def role(text: str) -> str:
    """`own`, or a role's ARN."""
    return text if text == "own" else _fits(_ROLE, text, "write own, or a role's ARN, arn:aws:iam::ACCOUNT:role/NAME")


def repository(text: str) -> str:
    """`own`, or an ECR repository's name, of this account and region."""
    return text if text == "own" else _fits(_REPOSITORY, text, "write own, or an ECR repository's name (not its address)")


def host_image(text: str) -> str:
    """An image's id, or the public parameter that names the newest."""
    if _PARAMETER.fullmatch(text):
        return text
    return _fits(_AMI, text, "write ami-… or the name of a public parameter, /aws/service/…")


def bucket(text: str) -> str:
    """`own`, or an S3 bucket's name (3 to 63: lower case, digits, dots, hyphens)."""
    if ".." in text:
        raise ValueError("an S3 bucket's name has no two dots in a row")
    return text if text == "own" else _fits(_BUCKET, text, "write own, or a bucket's name: 3 to 63 of a-z, 0-9, dot and hyphen")


def instance_profile(text: str) -> str:
    """`own`, or a profile's name."""
    return _fits(_PROFILE, text, "write own, or an instance profile's name (not its ARN)")


def vpc(text: str) -> str:
    """A network's id."""
    return _fits(_VPC, text, "write a network's id, vpc-…")


def subnet(text: str) -> str:
    """A subnetwork's id."""
    return _fits(_SUBNET, text, "write a subnetwork's id, subnet-…")


def commit(text: str) -> str:
    """All 40 digits: a branch or a tag may move. The shipped file's placeholder is left to the rule that names it."""
    return text if text.startswith("your-") else _fits(_COMMIT, text, "write the full commit, 40 hexadecimal digits")


def release(text: str) -> str:
    """A vLLM release as Python writes it."""
    return _fits(_RELEASE, text, "write a release such as 0.27.2rc0")


def subnet_range(text: str) -> str:
    """A private range from /16 to /24: a network's largest, and the smallest that is divided among eight zones."""
    try:
        network = ipaddress.IPv4Network(text)
    except ValueError:
        raise ValueError("write an address range such as 10.9.0.0/24") from None
    if not network.is_private or not 16 <= network.prefixlen <= 24:
        raise ValueError("write a private range from /16 to /24, such as 10.9.0.0/24")
    return text


def secret_id(text: str) -> str:
    """A secret's name, not its ARN. A tail of a hyphen and six characters looks like what an ARN ends with, and finds nothing."""
    _fits(_SECRET, text, "write a secret's name: letters, digits and / _ + = . @ -")
    if _SECRET_TAIL.search(text):
        raise ValueError("a secret's name must not end in a hyphen and six characters, as the ARN of one does")
    return text


def _fits(shape: re.Pattern[str], text: str, words: str) -> str:
    if not shape.fullmatch(text):
        raise ValueError(words)
    return text
