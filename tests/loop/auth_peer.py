# SPDX-License-Identifier: BSD-3-Clause
"""DH-HMAC-CHAP over nvmf_peer: a host that authenticates itself, step by step, so that a test can replace each step.

Independent of our C code: offsets and computations are those of NVMe Base 2.0, 8.13.5, the groups those of RFC 7919.
"""

import base64
import functools
import hashlib
import hmac
import struct
import zlib

import nvmf_peer as nv

AUTH_SEND, AUTH_RECEIVE = 5, 6
AUTH_REQUIRED = 0x191
ATR = 0x00020000

NEGOTIATE, CHALLENGE, REPLY, SUCCESS1, SUCCESS2 = 0x0000, 0x0101, 0x0102, 0x0103, 0x0104
FAILURE1, FAILURE2 = 0x00F1, 0x00F0

# explanations of Failure1 and Failure2
FAILED, PROTOCOL, CONCATENATION, HASH_UNUSABLE, GROUP_UNUSABLE, PAYLOAD, MESSAGE = range(1, 8)

HASHES = {'sha256': 1, 'sha384': 2, 'sha512': 3}
HASH_NAMES = {value: name for name, value in HASHES.items()}
GROUPS = {'null': 0, 'ffdhe2048': 1, 'ffdhe3072': 2, 'ffdhe4096': 3, 'ffdhe6144': 4, 'ffdhe8192': 5}
# bits, and the X of RFC 7919
SIZES = {1: (2048, 560316), 2: (3072, 2625351), 3: (4096, 5736041), 4: (6144, 15705020), 5: (8192, 10965728)}


def group_len(group):
    """Bytes of a Diffie-Hellman value."""
    return SIZES[group][0] // 8 if group else 0


def key_text(secret, hash_id=0):
    crc = zlib.crc32(secret).to_bytes(4, 'little')
    return f'DHHC-1:{hash_id:02}:{base64.b64encode(secret + crc).decode()}:'


def transform(secret, hash_id, nqn):
    if not hash_id:
        return secret
    return hmac.digest(secret, nqn.encode() + b'NVMe-over-Fabrics', HASH_NAMES[hash_id])


@functools.cache
def prime(group):
    bits, x = SIZES[group]
    scale = 1 << (bits - 130 + 64)  # the series of e, in fixed point with 64 more bits
    total, term, n = scale, scale, 1
    while term:
        term //= n
        total += term
        n += 1
    return 2 ** bits - 2 ** (bits - 64) + ((total >> 64) + x) * 2 ** 64 - 1


def auth_body(length, spsp0=1, spsp1=1, secp=0xE9):
    return struct.pack('<BBBBI', 0, spsp0, spsp1, secp, length)


def send(queue, msg, *, length=None, in_capsule=None, **body):
    """Authentication Send: in the capsule on an I/O queue, as Linux does it. Returns the Cqe."""
    cid = queue.next_cid()
    length = len(msg) if length is None else length
    if in_capsule if in_capsule is not None else queue.qid or hasattr(queue, 'fabrics_in'):
        return queue.call(nv.fabrics_sqe(AUTH_SEND, cid, auth_body(length, **body),
                                         sgl=nv.offset_sgl(0, len(msg))) + msg)
    region = queue.conn.register(msg, write=False)
    cqe = queue.call(nv.fabrics_sqe(AUTH_SEND, cid, auth_body(length, **body),
                                    sgl=nv.keyed_sgl(region.base, len(msg), region.stag)))
    queue.conn.deregister(region)
    return cqe


def receive(queue, size=4096, *, length=None, **body):
    """Authentication Receive. Returns (Cqe, bytes)."""
    if hasattr(queue, 'fabrics_in'):  # NVMe/TCP
        return queue.fabrics_in(AUTH_RECEIVE, auth_body(size if length is None else length, **body), size)
    region = queue.conn.register(b'\xAA' * size, read=False)
    cqe = queue.call(nv.fabrics_sqe(AUTH_RECEIVE, queue.next_cid(),
                                    auth_body(size if length is None else length, **body),
                                    sgl=nv.keyed_sgl(region.base, size, region.stag)))
    queue.conn.deregister(region)
    return cqe, bytes(region.data)


def head(msg):
    """(message, t_id)"""
    return msg[0] << 8 | msg[1], struct.unpack_from('<H', msg, 4)[0]


class Refused(AssertionError):
    """Failure1 came."""

    def __init__(self, explanation):
        self.explanation = explanation
        super().__init__(f'Failure1, explanation {explanation}')


class Transaction:
    """One authentication of a queue, as a host."""

    def __init__(self, queue, subnqn, secret, *, hostnqn=nv.HOST_NQN, key_hash=0, ctrl_secret=None, ctrl_key_hash=0,
                 hashes=(1, 2, 3), groups=(0, 1, 2, 3, 4, 5), t_id=0x1234, private=None):
        self.queue, self.subnqn, self.hostnqn, self.t_id = queue, subnqn, hostnqn, t_id
        self.key = transform(secret, key_hash, hostnqn)
        self.ctrl_key = ctrl_secret and transform(ctrl_secret, ctrl_key_hash, subnqn)
        self.hashes, self.groups = hashes, groups
        self.private = private or int.from_bytes(hmac.digest(b'private', secret, 'sha512'), 'big')
        self.seqnum = 0x0A0B0C0D

    # -- messages --

    def negotiate(self, *, sc_c=0, napd=1, auth_id=1, tail=b''):
        ids = bytes(self.hashes).ljust(30, b'\0') + bytes(self.groups).ljust(30, b'\0')
        return (struct.pack('<BBHHBB', 0, 0, 0, self.t_id, sc_c, napd)
                + struct.pack('<BBBB', auth_id, 0, len(self.hashes), len(self.groups)) + ids + tail)

    def send(self, msg):
        nv.expect(send(self.queue, msg))

    def receive(self, expected):
        msg = nv.expect_data(receive(self.queue))
        got, t_id = head(msg)
        if got == FAILURE1:
            if msg[6] != 1 or any(msg[8:]):
                raise AssertionError(f'Failure1 {msg[:16].hex()}')
            raise Refused(msg[7])
        if got != expected or t_id != self.t_id:
            raise AssertionError(f'message {got:#06x} of transaction {t_id:#x}, expected {expected:#06x}')
        return msg

    def read_challenge(self, msg):
        self.hash_len, self.hash_id, self.group, dhv_len, self.s1 = struct.unpack_from('<BxBBHI', msg, 6)
        if self.hash_id not in self.hashes or self.group not in self.groups or not self.s1:
            raise AssertionError(f'challenge {msg[:16].hex()}')
        self.c1 = msg[16:16 + self.hash_len]
        self.dhv1 = msg[16 + self.hash_len:][:dhv_len]
        if any(msg[16 + self.hash_len + dhv_len:]):
            raise AssertionError('the challenge is not padded with zeroes')
        if dhv_len != group_len(self.group):
            raise AssertionError(f'{dhv_len} bytes of Diffie-Hellman value')
        self.derive()

    def derive(self):
        if self.group:
            size, p = group_len(self.group), prime(self.group)
            shared = pow(int.from_bytes(self.dhv1, 'big'), self.private, p).to_bytes(size, 'big')
            self.session = hashlib.new(self.digest, shared).digest()
            self.dhv2 = pow(2, self.private, p).to_bytes(size, 'big')
        else:
            self.session, self.dhv2 = None, b''

    @property
    def digest(self):
        return HASH_NAMES[self.hash_id]

    def response(self, key, challenge, seqnum, role, first, second):
        if self.session:
            challenge = hmac.digest(self.session, challenge, self.digest)
        text = (challenge + struct.pack('<IHB', seqnum, self.t_id, 0) + role.encode() + first.encode() + b'\0'
                + second.encode())
        return hmac.digest(key, text, self.digest)

    def reply(self, *, rval=None, hash_len=None, dhv=None, cvalid=None, seqnum=None, t_id=None, tail=b''):
        r1 = self.response(self.key, self.c1, self.s1, 'HostHost', self.hostnqn, self.subnqn)
        self.c2 = bytes(0xD0 + i & 0xFF for i in range(self.hash_len))
        dhv = self.dhv2 if dhv is None else dhv
        cvalid = bool(self.ctrl_key) if cvalid is None else cvalid
        return (struct.pack('<BBHHBBBBHI', 1, 2, 0, self.t_id if t_id is None else t_id,
                            self.hash_len if hash_len is None else hash_len, 0, cvalid, 0, len(dhv),
                            self.seqnum if seqnum is None else seqnum)
                + (r1 if rval is None else rval) + self.c2 + dhv + tail)

    def check_success1(self, msg):
        if msg[6] != self.hash_len or msg[8] != bool(self.ctrl_key):
            raise AssertionError(f'Success1 {msg[:16].hex()}')
        if self.ctrl_key:
            r2 = self.response(self.ctrl_key, self.c2, self.seqnum, 'Controller', self.subnqn, self.hostnqn)
            if msg[16:16 + self.hash_len] != r2:
                raise AssertionError('the controller does not have its key')

    def success2(self):
        return struct.pack('<BBHH10x', 1, 4, 0, self.t_id)

    def failure2(self, explanation=FAILED):
        return struct.pack('<BBHHBB', 0, 0xF0, 0, self.t_id, 1, explanation)

    # -- the whole --

    def until_challenge(self):
        self.send(self.negotiate())
        self.read_challenge(self.receive(CHALLENGE))
        return self

    def run(self):
        self.until_challenge()
        self.send(self.reply())
        self.check_success1(self.receive(SUCCESS1))
        if self.ctrl_key:
            self.send(self.success2())
        return self
