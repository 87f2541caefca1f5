"""Ports for tests that name one before anybody listens at it."""

import secrets
import socket


def free_port():
    """A port that the kernel gives to nobody by itself: a connection of another
    program could otherwise get it before the test does, or instead of it."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        least = int(file.read().split()[0])
    while True:
        port = secrets.choice(range(max(1024, least - 16384), least))
        with socket.socket() as sock:
            try:
                sock.bind(("127.0.0.1", port))
                return port
            except OSError:
                pass
