#!/usr/bin/env python3
"""A bad bus for the hooks: `badbus.py MODE PORT`.

  hang     a connection is never established: the kernel drops its packets
  silent   a connection is accepted, and no byte is ever sent
  garbage  bytes without sense and without end
  slow     the first line comes after five seconds, and nothing after it
"""

import os
import random
import socket
import sys
import threading
import time


def serve(connection: socket.socket, mode: str) -> None:
    try:
        if mode == "slow":
            time.sleep(5)
            connection.sendall(b'INFO {"headers":true}\r\n')
        while mode == "garbage":
            connection.sendall(random.randbytes(4096))
            time.sleep(0.01)
        while connection.recv(4096):
            pass
    except OSError:
        pass


def main() -> None:
    mode, port = sys.argv[1], int(sys.argv[2])
    listener = socket.create_server(("0.0.0.0", port), backlog=0 if mode == "hang" else 64)
    held = []
    if mode == "hang":
        # Unaccepted connections fill the queue, so the next one gets no answer.
        for _ in range(4):
            client = socket.socket()
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", port))
            held.append(client)
    print(f"{mode} on {port}, pid {os.getpid()}", flush=True)
    while mode == "hang":
        time.sleep(60)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=serve, args=(connection, mode), daemon=True).start()


if __name__ == "__main__":
    main()
