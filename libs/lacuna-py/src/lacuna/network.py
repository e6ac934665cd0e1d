"""Which network interface gloo should use.

Gloo binds to the address that the host's own name resolves to, which on many machines is a
loopback address that no other node reaches. The way to the store is a better guide: it is
reachable by all members.
"""

from __future__ import annotations

import fcntl
import logging
import os
import socket
import struct
from typing import Optional

log = logging.getLogger("lacuna")

#: Asks for the IPv4 address of an interface (netdevice(7)).
_SIOCGIFADDR = 0x8915


def choose_interface(host: str, port: int) -> None:
    """Sets ``GLOO_SOCKET_IFNAME`` to the interface that leads to a host, unless it is set."""
    if os.environ.get("GLOO_SOCKET_IFNAME"):
        return
    name = interface_to(host, port)
    if name is not None:
        os.environ["GLOO_SOCKET_IFNAME"] = name
        log.info("gloo uses interface %s", name)


def interface_to(host: str, port: int) -> Optional[str]:
    """The interface with the address from which a host is reached (IPv4); None if unknown."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            # Connecting a datagram socket sends nothing; it only chooses a route.
            probe.connect((host, port))
            mine = probe.getsockname()[0]
            for _, name in socket.if_nameindex():
                try:
                    answer = fcntl.ioctl(
                        probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15])
                    )
                except OSError:
                    continue
                if socket.inet_ntoa(answer[20:24]) == mine:
                    return name
    except OSError as error:
        log.debug("the way to %s is not known: %s", host, error)
    return None
