"""The checksum of a file on its way between replicas of ClickHouse: CityHash128 of Google's version 1.0.2 over blocks of
2,048 bytes, each seeded with the hash of the one before."""
import struct

ALL = (1 << 64) - 1
K0, K1, K2, K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
MULTIPLIER = 0x9DDFEA08EB382D69
BLOCK_BYTES = 2048


def checksum(data):
    low, high = 0, 0
    for at in range(0, len(data), BLOCK_BYTES):
        low, high = city_hash(data[at : at + BLOCK_BYTES], low, high)
    return struct.pack("<QQ", low, high)


def rotate(value, bits):
    value &= ALL
    return value >> bits | value << (64 - bits) & ALL


def shift_mix(value):
    value &= ALL
    return value ^ value >> 47


def hash_pair(low, high):
    low, high = low & ALL, high & ALL
    a = shift_mix((low ^ high) * MULTIPLIER)
    return shift_mix((high ^ a) * MULTIPLIER) * MULTIPLIER & ALL


def word(data, at):
    return int.from_bytes(data[at : at + 8], "little")


def hash_short(data):
    """At most 16 bytes."""
    length = len(data)
    if length > 8:
        last = word(data, length - 8)
        return hash_pair(word(data, 0), rotate(last + length, length)) ^ last
    if length >= 4:
        first, last = struct.unpack("<I", data[:4])[0], struct.unpack("<I", data[-4:])[0]
        return hash_pair(length + (first << 3), last)
    if length > 0:
        y, z = data[0] + (data[length >> 1] << 8), length + (data[-1] << 2)
        return shift_mix(y * K2 ^ z * K3) * K2 & ALL
    return K2


def murmur(data, a, b):
    """Fewer than 128 bytes."""
    length = len(data)
    if length <= 16:
        a = shift_mix(a * K1) * K1 & ALL
        c = b * K1 + hash_short(data) & ALL
        d = shift_mix(a + (word(data, 0) if length >= 8 else c))
    else:
        c = hash_pair(word(data, length - 8) + K1, a)
        d = hash_pair(b + length, c + word(data, length - 16))
        a = a + d & ALL
        for at in range(0, length - 16, 16):
            a = (a ^ shift_mix(word(data, at) * K1) * K1 & ALL) * K1 & ALL
            b ^= a
            c = (c ^ shift_mix(word(data, at + 8) * K1) * K1 & ALL) * K1 & ALL
            d ^= c
    a, b = hash_pair(a, c), hash_pair(d, b)
    return a ^ b, hash_pair(b, a)


def weak(data, at, a, b):
    w, x, y, z = struct.unpack_from("<4Q", data, at)
    a += w
    b = rotate(b + a + z, 21)
    c = a
    a += x + y
    b += rotate(a, 44)
    return a + z & ALL, b + c & ALL


def city_hash(data, low, high):
    length = len(data)
    if length < 128:
        return murmur(data, low, high)
    x, y, z = low, high, length * K1 & ALL
    v0 = rotate(y ^ K1, 49) * K1 + word(data, 0) & ALL
    v1 = rotate(v0, 42) * K1 + word(data, 8) & ALL
    w0 = rotate(y + z, 35) * K1 + x & ALL
    w1 = rotate(x + word(data, 88), 53) * K1 & ALL
    at = 0
    while length - at >= 128:
        for _ in (1, 2):
            x = rotate(x + y + v0 + word(data, at + 16), 37) * K1 & ALL ^ w1
            y = rotate(y + v1 + word(data, at + 48), 42) * K1 & ALL ^ v0
            z = rotate(z ^ w0, 33)
            v0, v1 = weak(data, at, v1 * K1, x + w0)
            w0, w1 = weak(data, at + 32, z + w1, y)
            z, x = x, z
            at += 64
    y = y + rotate(w0, 37) * K0 + z & ALL
    x = x + rotate(v0 + z, 49) * K0 & ALL
    for done in range(32, length - at + 32, 32):
        y = rotate(y - x, 42) * K0 + v1 & ALL
        w0 = w0 + word(data, length - done + 16) & ALL
        x = rotate(x, 49) * K0 + w0 & ALL
        w0 = w0 + v0 & ALL
        v0, v1 = weak(data, length - done, v0, v1)
    x, y = hash_pair(x, v0), hash_pair(y, w0)
    return hash_pair(x + v1, w1) + y & ALL, hash_pair(x + w1, y + v1)
