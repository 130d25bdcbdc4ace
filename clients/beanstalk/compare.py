"""Runs one script against Tickwheel and beanstalkd, and compares the answers line by line.

Numbers of jobs are compared by name: the first job that is put is `<a>` on both sides. Documents are
compared field by field, in order. Everything that may differ is listed in DIFFERENCES; what is
listed and does not differ any more is an error, too.
"""

import re
import socket
import sys

import servers

# The field of a document, and why its value differs.
DIFFERENCES = {
    ("stats", "current-jobs-urgent"): "Tickwheel does not count urgent jobs",
    ("stats-tube", "current-jobs-urgent"): "Tickwheel does not count urgent jobs",
    ("stats", "version"): "each tells its own",
    ("stats", "pid"): "each tells its own",
    ("stats", "id"): "each tells its own",
    ("stats", "binlog-max-size"): "Tickwheel has no binlog",
    ("stats-job", "kicks"): "Tickwheel does not count kicks of delayed jobs",
    ("stats-job", "releases"): "the end of a connection counts as a release in Tickwheel",
}
# The same for values that depend on the moment, and so may be equal.
VARYING = {
    ("stats-job", "age"),
    ("stats-job", "time-left"),
    ("stats-tube", "pause-time-left"),
    ("stats", "rusage-utime"),
    ("stats", "rusage-stime"),
    ("stats", "uptime"),
    ("stats", "total-connections"),
    # Since version 1.13, beanstalkd says what the system and not what the machine is.
    ("stats", "os"),
    ("stats", "platform"),
    ("stats", "hostname"),
}

# Each line: a connection, and what it sends. `put` is followed by the body. `<x>` is the number of
# a job; `= <x>` after a put gives a name to its job.
SCRIPT = """
A list-tubes
A list-tube-used
A list-tubes-watched
A use mail
A put 100 0 60 5|hello = <a>
A put 50 0 60 5|world = <b>
A put 50 0 60 0| = <c>
A put 10 3600 60 5|later = <d>
A put 4294967295 0 60 3|low = <e>
A put 4294967295 0 0 1|z = <z>
A stats-tube mail
A stats-job <a>
A stats-job <d>
A stats-job <e>
A stats-job <z>
A delete <z>
A peek <a>
A peek-ready
A peek-delayed
A peek-buried
A peek 999999999999999
B reserve-with-timeout 0
B watch mail
B watch mail
B watch other
B list-tubes-watched
B ignore other
B ignore default
B ignore mail
B reserve
B stats-job <b>
B reserve
B delete <c>
B delete <c>
A delete <b>
A release <b> 0 0
A touch <b>
A bury <b> 0
B touch <b>
B release <b> 7 0
B release <b> 7 0
A stats-job <b>
A peek-ready
B reserve
B bury <b> 9
A peek-buried
A stats-job <b>
A stats-tube mail
A kick 10
A stats-job <b>
A kick 10
A stats-job <d>
A kick 10
A kick-job <b>
A kick-job 12345
B reserve
B reserve
B reserve
B reserve
B reserve-with-timeout 0
A list-tubes
B delete <d>
B delete <b>
B delete <a>
B delete <e>
A stats-tube mail
A stats-tube nowhere
A reserve-job 1234567890123
A put 0 0 60 1|x = <f>
A put 0 3600 60 1|y = <g>
B reserve-job <f>
B reserve-job <f>
B reserve-job <g>
B bury <g> 3
B reserve-job <g>
B release <g> 3 0
B release <f> 3 0
B reserve
B reserve
B delete <f>
B delete <g>
A put 0 1 60 7|delayed = <h>
B reserve-with-timeout 5
B delete <h>
A put 0 0 1 5|quick = <i>
B reserve
A use mail
C watch mail
C ignore default
B delete <i>
A put 0 0 2 4|soon = <j>
B reserve
B reserve-with-timeout 5
B reserve
B touch <j>
B delete <j>
A put 0 0 60 6|paused = <k>
A pause-tube mail 1
B reserve-with-timeout 0
B reserve-with-timeout 5
B delete <k>
A pause-tube nowhere 1
A stats-tube mail
A put 5 0 60 4|gone = <l>
C reserve
C close
B reserve-with-timeout 5
B stats-job <l>
B delete <l>
A use -bad
A use a b
A use {a201}
A use {b200}
A bogus
A delete
A delete x
A delete 1 2
A reserve now
A put 1 2 3
A put a b c d
A put 1 2 3 99999999999
A release 1 2
A kick x
A pause-tube mail
A stats-job x
A stats now
A list-tubes now
A peek
A put 0 0 60 2|abcd
A quit
B use mail
B put 5 0 60 6|urgent = <m>
B stats
""".format(a201="a" * 201, b200="b" * 200)


class Connection:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.reader = self.socket.makefile("rb")

    def ask(self, request):
        self.socket.sendall(request)

    def answer(self):
        line = self.reader.readline().decode()
        answer = [line]
        words = line.split()
        if words and words[0] in ("OK", "RESERVED", "FOUND"):
            data = self.reader.read(int(words[-1]) + 2).decode()
            answer += data.splitlines(keepends=True)
        return answer

    def end(self, quits):
        """Closes the connection, or lets the server do that."""
        if quits:
            self.ask(b"quit\r\n")
        else:
            self.socket.shutdown(socket.SHUT_WR)
        rest = self.reader.read().decode()
        self.reader.close()
        self.socket.close()
        return rest.splitlines(keepends=True)


def run(server):
    """The answers of a server to the script."""
    connections, numbers, transcript = {}, {}, []
    for step in SCRIPT.strip().splitlines():
        name, request = step.split(" ", 1)
        connection = connections.get(name) or connections.setdefault(name, Connection(server.port))
        if request in ("close", "quit"):
            rest = connections.pop(name).end(request == "quit")
            transcript.append((step, rest))
            continue
        request, _, job = request.partition(" = ")
        for known, number in numbers.items():
            request = request.replace(known, number)
        line, is_put, body = request.partition("|")
        connection.ask((line + "\r\n" + (body + "\r\n" if is_put else "")).encode())
        answer = connection.answer()
        if job:
            numbers[job] = answer[0].split()[1]
        if answer == ["EXPECTED_CRLF\r\n"]:
            # The rest of the body is the next line.
            answer += connection.answer()
        transcript.append((step, [named(line, numbers) for line in answer]))
    for connection in connections.values():
        connection.end(False)
    return transcript


def named(line, numbers):
    """A line with the names of jobs in place of their numbers, and without quotes around the names of
    tubes, which beanstalkd has since version 1.13."""
    line = line.replace('"', "")
    for name, number in numbers.items():
        line = re.sub(rf"(?<![\w.]){number}(?![\w.])", name, line) if len(number) > 8 else line
        line = re.sub(rf"^((?:INSERTED|RESERVED|FOUND|id:) ){number}\b", rf"\1{name}", line)
    return line


def compare(ours, theirs):
    found, differed = [], set()
    for (step, mine), (_, their) in zip(ours, theirs):
        document = step.split()[1]
        if all(answer and answer[0].startswith("OK ") for answer in (mine, their)):
            # The length follows from the fields.
            mine, their = mine[1:], their[1:]
        if len(mine) != len(their):
            found.append((step, mine, their))
            continue
        for my_line, their_line in zip(mine, their):
            if my_line == their_line:
                continue
            field = (document, my_line.split(":")[0])
            same_field = field[1] == their_line.split(":")[0]
            if same_field and field in DIFFERENCES:
                differed.add(field)
            elif not (same_field and field in VARYING):
                found.append((step, my_line, their_line))
    return found, set(DIFFERENCES) - differed


def main():
    with servers.tickwheel() as ours, servers.beanstalkd() as theirs:
        mine, their = run(ours), run(theirs)
    found, stale = compare(mine, their)
    for step, my_answer, their_answer in found:
        print(f"{step}\n  tickwheel:  {my_answer!r}\n  beanstalkd: {their_answer!r}")
    for document, field in sorted(stale):
        print(f"{field} of {document} is listed as a difference, and does not differ")
    if found or stale:
        sys.exit(1)
    lines = sum(len(answer) for _, answer in mine)
    print(f"{len(mine)} requests, {lines} lines: as beanstalkd {servers.beanstalkd_version()}")
    for (document, field), why in sorted(DIFFERENCES.items()):
        print(f"  different: {field} of {document}: {why}")


if __name__ == "__main__":
    main()
