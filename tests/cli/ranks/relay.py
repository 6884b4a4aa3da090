"""The wire between the hosts of a test, with faults: frames that arrive on one interface leave by the others after a delay, or are lost.

usage: relay.py INTERFACE...            lines of standard input change it:
       delay SECONDS                    of each frame
       loss SHARE SEED                  frames lost at random
       count                            prints "N sent, N lost"
       cut INTERFACE | heal             nothing comes from or goes to it; all of that ends
relay.py --plain INTERFACE              only switches off what network cards do later to frames: checksums and their division
"""
import ctypes, fcntl, heapq, os, random, select, socket, struct, sys, time

SIOCETHTOOL, OFF = 0x8946, (0x17, 0x1F, 0x25, 0x2B)  # checksums of sent frames, TSO, GSO of sent, GRO of received frames


def plain(interface):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        for what in OFF:
            value = ctypes.create_string_buffer(struct.pack("II", what, 0))
            request = struct.pack("16sP", interface.encode(), ctypes.addressof(value))
            try:
                fcntl.ioctl(s, SIOCETHTOOL, request)
            except OSError:
                pass  # what it cannot do is off


def main(names):
    ports = {}
    for name in names:
        s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
        s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE
        s.bind((name, 0))
        s.setblocking(False)
        ports[s] = name
    where, late, cut = {}, [], set()  # MAC -> socket; (time, number, socket, frame); names
    delay, loss, chance, number, lost = 0.0, 0.0, random.Random(0), 0, 0
    given = b""
    print("ready", flush=True)
    while True:
        wait = max(0.0, late[0][0] - time.monotonic()) if late else None
        readable = select.select([*ports, sys.stdin], [], [], wait)[0]
        for s in readable:
            if s is sys.stdin:
                data = os.read(0, 4096)  # sys.stdin would keep lines that select() does not see
                if not data:
                    return
                given += data
                *lines, given = given.split(b"\n")
                for words in (line.decode().split() for line in lines):
                    if words[0] == "delay":
                        delay = float(words[1])
                    elif words[0] == "loss":
                        loss, chance = float(words[1]), random.Random(int(words[2]))
                    elif words[0] == "count":
                        print(f"{number} sent, {lost} lost", flush=True)
                    elif words[0] == "cut":
                        cut.add(words[1])
                    elif words[0] == "heal":
                        cut.clear()
                continue
            for _ in range(64):
                try:
                    frame, address = s.recvfrom(1 << 17)
                except OSError:
                    break
                if address[2] == socket.PACKET_OUTGOING:
                    continue
                if ports[s] in cut or (loss and chance.random() < loss):
                    lost += 1
                    continue
                where[frame[6:12]] = s
                to = [where[frame[:6]]] if frame[:6] in where else [p for p in ports if p is not s]
                for t in to:
                    number += 1
                    heapq.heappush(late, (time.monotonic() + delay, number, t, frame))
        while late and late[0][0] <= time.monotonic():
            _, _, t, frame = heapq.heappop(late)
            if ports[t] not in cut:
                try:
                    t.send(frame)
                except OSError:
                    pass  # a full queue loses it, as a switch does


if sys.argv[1] == "--plain":
    plain(sys.argv[2])
else:
    main(sys.argv[1:])
