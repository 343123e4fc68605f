// Key encoding as in format/key.ts: integers and times are big-endian with the sign flipped, floats
// have bits that keep their order, strings follow their length, and long strings are their SHA-256.
#include "key.h"

#include <dlfcn.h>

namespace weir {

using Sha256 = unsigned char* (*)(const unsigned char* data, size_t bytes, unsigned char* digest);

// Node's own OpenSSL; null in a build of Node that does not export it.
static Sha256 sha256() {
  static const Sha256 found = reinterpret_cast<Sha256>(dlsym(RTLD_DEFAULT, "SHA256"));
  return found;
}

static uint8_t* write_big_endian(uint8_t* out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; i++) out[i] = static_cast<uint8_t>(value >> (8 * (bytes - 1 - i)));
  return out + bytes;
}

uint8_t* write_key_int64(uint8_t* out, int64_t value) {
  return write_big_endian(out, static_cast<uint64_t>(value) ^ 0x8000000000000000ull, 8);
}

uint8_t* write_key_days(uint8_t* out, int32_t days) {
  return write_big_endian(out, static_cast<uint32_t>(days) ^ 0x80000000u, 4);
}

uint8_t* write_key_double(uint8_t* out, double value) {
  value += 0.0;  // −0 is the same key as 0
  uint64_t bits;
  std::memcpy(&bits, &value, 8);
  return write_big_endian(out, bits >> 63 ? ~bits : bits ^ 0x8000000000000000ull, 8);
}

uint8_t* write_key_boolean(uint8_t* out, bool value) {
  *out = value ? 1 : 0;
  return out + 1;
}

uint8_t* write_key_string(uint8_t* out, const uint8_t* data, size_t bytes) {
  if (bytes <= key_part_bytes_max) {
    *out = static_cast<uint8_t>(bytes);
    if (bytes > 0) std::memcpy(out + 1, data, bytes);
    return out + 1 + bytes;
  }
  Sha256 digest = sha256();
  if (digest == nullptr) return nullptr;
  *out = 255;
  digest(data, bytes, out + 1);
  return out + 33;
}

static uint8_t* write_part(uint8_t* out, Type type, const Builder& column, uint32_t row) {
  switch (type) {
    case Type::boolean: return write_key_boolean(out, column.get<uint8_t>(row) != 0);
    case Type::float32: return write_key_double(out, column.get<float>(row));
    case Type::float64: return write_key_double(out, column.get<double>(row));
    case Type::int8: return write_key_int64(out, column.get<int8_t>(row));
    case Type::int16: return write_key_int64(out, column.get<int16_t>(row));
    case Type::int32: return write_key_int64(out, column.get<int32_t>(row));
    case Type::date: return write_key_days(out, column.get<int32_t>(row));
    case Type::int64: case Type::timestamp: return write_key_int64(out, column.get<int64_t>(row));
    default: {
      size_t bytes;
      const uint8_t* data = column.row_bytes(row, &bytes);
      return write_key_string(out, data, bytes);
    }
  }
}

bool set_key(const PoolSchema& schema, const std::vector<Builder>& columns, int64_t received_at_micros, Builder& into,
             uint32_t row) {
  uint8_t* const begin = into.room(schema.key.size() * key_part_written_max);
  uint8_t* out = begin;
  for (int32_t index : schema.key) {
    out = index == key_received_at ? write_key_int64(out, received_at_micros)
                                   : write_part(out, schema.columns[index].type, columns[index], row);
    if (out == nullptr) return false;
  }
  into.grow(static_cast<size_t>(out - begin));
  into.end_bytes(row);
  return true;
}

}  // namespace weir
