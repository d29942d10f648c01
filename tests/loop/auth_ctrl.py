# SPDX-License-Identifier: BSD-3-Clause
"""DH-HMAC-CHAP over nvmf_peer: a controller that authenticates hosts, and that a test can make as rude as it
wants. Independent of our C code, as auth_peer, which has the host's part."""

import hashlib
import hmac
import os
import struct

import nvmf_peer as nv
from auth_peer import (ATR, AUTH_RECEIVE, AUTH_REQUIRED, AUTH_SEND, FAILED, FAILURE2, HASH_NAMES, NEGOTIATE,
                       REPLY, SUCCESS2, group_len, prime, transform)

ASCR = 0x00040000


def hash_len(hash_id):
    return hashlib.new(HASH_NAMES[hash_id]).digest_size


def respond(key, hash_id, session, challenge, seqnum, t_id, role, first, second, sc_c=0):
    """R1 or R2. @session: the hash of the shared secret, or None with the null group."""
    name = HASH_NAMES[hash_id]
    ca = hmac.digest(session, challenge, name) if session is not None else challenge
    text = (ca + struct.pack('<IHB', seqnum, t_id, sc_c) + role + first.encode() + b'\0'
            + second.encode())
    return hmac.digest(key, text, name)


class Tx:
    """What a controller remembers of one transaction."""

    def __init__(self):
        self.state = 'idle'
        self.t_id = 0


class AuthTarget(nv.FakeTarget):
    """A controller that authenticates hosts. .refused: explanations of Failure2 that hosts sent; .ends:
    (qid, 'ok' or 'failed') of each transaction; .t_ids, .seqnums, .host_values: seen from hosts.

    @tamper: {'challenge': f, 'success1': f}: f(message, tx) returns what is sent instead, or None to
    answer the command with an error.
    """

    def __init__(self, *, secret, secret_hash=0, ctrl_secret=None, ctrl_hash=0, hash_id=1, group=0,
                 demand=True, tamper=None, **kw):
        self.secret, self.secret_hash = secret, secret_hash
        self.ctrl_secret, self.ctrl_hash = ctrl_secret, ctrl_hash
        self.hash_id, self.group = hash_id, group
        self.demand, self.tamper = demand, tamper or {}
        self.p = prime(group) if group else None
        self.refused, self.ends, self.t_ids, self.seqnums, self.host_values = [], [], [], [], []
        self.offers = []
        self.not_yet = []  # commands that came before the end of a queue's first transaction
        self.connect_bits = ATR
        super().__init__(**kw)

    # -- when --

    def do_connect(self, queue, cmd):
        data = self.fetch(queue, cmd)
        queue.subnqn = data[256:512].split(b'\0')[0].decode()
        queue.hostnqn = data[512:768].split(b'\0')[0].decode()
        queue.tx, queue.authenticated = Tx(), not self.demand
        queue.conn.user = data
        if queue.subnqn != self.subnqn:
            return self.respond(queue, cmd, nv.CONNECT_PARAM, 0x00010100)
        return self.respond(queue, cmd, result=1 | (self.connect_bits if self.demand else 0))

    def on_command(self, queue, cmd):
        if cmd.opcode == nv.FABRICS and cmd.fctype == AUTH_SEND:
            return self.do_auth_send(queue, cmd)
        if cmd.opcode == nv.FABRICS and cmd.fctype == AUTH_RECEIVE:
            return self.do_auth_receive(queue, cmd)
        if not (cmd.opcode == nv.FABRICS and cmd.fctype == nv.CONNECT) and not queue.authenticated:
            self.not_yet.append((queue.qid, cmd.opcode, cmd.fctype))
            return self.respond(queue, cmd, AUTH_REQUIRED)
        return super().on_command(queue, cmd)

    @staticmethod
    def _fields_are_right(cmd):
        reserved, spsp0, spsp1, secp, length = struct.unpack_from('<BBBBI', cmd.raw, 40)
        return (reserved, spsp0, spsp1, secp) == (0, 1, 1, 0xE9) and length == cmd.length

    # -- messages of the host --

    def do_auth_send(self, queue, cmd):
        if not self._fields_are_right(cmd):
            raise nv.iw.PeerError(f'Authentication Send with {cmd.raw[40:48].hex()}, SGL of {cmd.length} bytes')
        msg = self.fetch(queue, cmd)
        kind = msg[0] << 8 | msg[1]
        tx = queue.tx
        if kind == NEGOTIATE:
            self._negotiate(tx, msg)
        elif kind == REPLY and tx.state == 'challenged':
            self._reply(queue, tx, msg)
        elif kind == SUCCESS2 and tx.state == 'proved':
            if msg != struct.pack('<BBHH10x', 1, 4, 0, tx.t_id):
                raise nv.iw.PeerError(f'Success2 is {msg.hex()}')
            self._end(queue, tx, 'ok')
        elif kind == FAILURE2:
            if len(msg) != 8 or msg[6] != 1:
                raise nv.iw.PeerError(f'Failure2 is {msg.hex()}')
            self.refused.append(msg[7])
            self._end(queue, tx, 'failed')
            self.after_failure2(queue)
        else:
            raise nv.iw.PeerError(f'message {kind:#06x} in state {tx.state}')
        return self.respond(queue, cmd)

    def after_failure2(self, queue):
        """For a controller that closes at once."""

    def _negotiate(self, tx, msg):
        auth_id, halen, dhlen = msg[8], msg[10], msg[11]
        if len(msg) != 72 or msg[7] != 1 or auth_id != 1 or msg[6] != 0:
            raise nv.iw.PeerError(f'negotiate is {msg.hex()}')
        self.offers.append((list(msg[12:12 + halen]), list(msg[42:42 + dhlen])))
        tx.t_id = struct.unpack_from('<H', msg, 4)[0]
        self.t_ids.append(tx.t_id)
        tx.state = 'negotiated'

    def _reply(self, queue, tx, msg):
        hl, n = hash_len(self.hash_id), group_len(self.group)
        got_hl, tx.cvalid, dhvlen, tx.s2 = struct.unpack_from('<BxBxHI', msg, 6)
        if len(msg) != 16 + 2 * hl + n or got_hl != hl or dhvlen != n or tx.cvalid > 1:
            raise nv.iw.PeerError(f'reply of {len(msg)} bytes is {msg[:16].hex()}...')
        if struct.unpack_from('<H', msg, 4)[0] != tx.t_id or (tx.cvalid and not tx.s2):
            raise nv.iw.PeerError(f'reply is {msg[:16].hex()}...')
        r1, tx.c2, dhv = msg[16:16 + hl], msg[16 + hl:16 + 2 * hl], msg[16 + 2 * hl:]
        tx.session = None
        if n:
            shared = pow(int.from_bytes(dhv, 'big'), tx.x, self.p)
            tx.session = hashlib.new(HASH_NAMES[self.hash_id], shared.to_bytes(n, 'big')).digest()
            self.host_values.append(dhv)
        self.seqnums.append(tx.s2)
        key = transform(self.secret, self.secret_hash, queue.hostnqn)
        want = respond(key, self.hash_id, tx.session, tx.c1, tx.s1, tx.t_id, b'HostHost',
                       queue.hostnqn, queue.subnqn)
        tx.state = 'replied' if r1 == want else 'refuse'

    # -- messages to the host --

    def do_auth_receive(self, queue, cmd):
        if not self._fields_are_right(cmd):
            raise nv.iw.PeerError(f'Authentication Receive with {cmd.raw[40:48].hex()}')
        tx = queue.tx
        if tx.state == 'negotiated':
            msg = self._tampered('challenge', self._challenge(tx), tx)
            tx.state = 'challenged'
        elif tx.state == 'replied':
            msg = self._tampered('success1', self._success1(queue, tx), tx)
            if tx.cvalid:
                tx.state = 'proved'
            else:
                self._end(queue, tx, 'ok')
        elif tx.state == 'refuse':
            msg = self.failure1(tx, FAILED)
            self._end(queue, tx, 'failed')
        else:
            raise nv.iw.PeerError(f'Authentication Receive in state {tx.state}')
        if msg is None:
            return self.respond(queue, cmd, nv.INVALID_FIELD)
        return self.put(queue, cmd, msg.ljust(cmd.length, b'\0'))

    def _tampered(self, name, msg, tx):
        return self.tamper[name](msg, tx) if name in self.tamper else msg

    @staticmethod
    def failure1(tx, explanation):
        return struct.pack('<BBHHBB', 0, 0xF1, 0, tx.t_id, 1, explanation)

    def _challenge(self, tx):
        n = group_len(self.group)
        tx.s1 = int.from_bytes(os.urandom(4), 'little') | 1
        tx.c1 = os.urandom(hash_len(self.hash_id))
        value = b''
        if n:
            tx.x = int.from_bytes(os.urandom(40), 'big')
            value = pow(2, tx.x, self.p).to_bytes(n, 'big')
        return (struct.pack('<BBHHBBBBHI', 1, 1, 0, tx.t_id, len(tx.c1), 0, self.hash_id, self.group, n, tx.s1)
                + tx.c1 + value)

    def _success1(self, queue, tx):
        hl = hash_len(self.hash_id)
        proof = b''
        if tx.cvalid and self.ctrl_secret is None:
            return self.failure1(tx, FAILED)  # as nvmet does
        if tx.cvalid:
            key = transform(self.ctrl_secret, self.ctrl_hash, queue.subnqn)
            proof = respond(key, self.hash_id, tx.session, tx.c2, tx.s2, tx.t_id, b'Controller',
                            queue.subnqn, queue.hostnqn)
        return struct.pack('<BBHHBBB7x', 1, 3, 0, tx.t_id, hl, 0, tx.cvalid) + proof

    def _end(self, queue, tx, how):
        tx.state = 'idle'
        queue.authenticated |= how == 'ok'
        self.ends.append((queue.qid, how))
