// Key encoding, as key.ts has it: integers and times big-endian with the sign flipped, floats with
// order-preserving bits, strings with their length, or their SHA-256 where they are long.
#include "key.h"

#include <dlfcn.h>

namespace weir {

using Sha256 = unsigned char* (*)(const unsigned char* data, size_t bytes, unsigned char* digest);

// Node's own OpenSSL; null in a build of Node that does not export it.
static Sha256 sha256() {
  static const Sha256 found = reinterpret_cast<Sha256>(dlsym(RTLD_DEFAULT, "SHA256"));
  return found;
}

static void add_big_endian(Builder& into, uint64_t value, int bytes) {
  uint8_t out[8];
  for (int i = 0; i < bytes; i++) out[i] = static_cast<uint8_t>(value >> (8 * (bytes - 1 - i)));
  into.add_bytes(out, bytes);
}

static void add_int64(Builder& into, int64_t value) {
  add_big_endian(into, static_cast<uint64_t>(value) ^ 0x8000000000000000ull, 8);
}

static void add_double(Builder& into, double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, 8);
  add_big_endian(into, bits >> 63 ? ~bits : bits ^ 0x8000000000000000ull, 8);
}

static bool add_string(Builder& into, const uint8_t* data, size_t bytes) {
  uint8_t head[33];
  if (bytes <= key_part_bytes_max) {
    head[0] = static_cast<uint8_t>(bytes);
    into.add_bytes(head, 1);
    into.add_bytes(data, bytes);
    return true;
  }
  Sha256 digest = sha256();
  if (digest == nullptr) return false;
  head[0] = 255;
  digest(data, bytes, head + 1);
  into.add_bytes(head, 33);
  return true;
}

static bool add_part(Builder& into, Type type, const Builder& column, uint32_t row) {
  switch (type) {
    case Type::boolean: add_big_endian(into, column.get<uint8_t>(row), 1); return true;
    case Type::float32: add_double(into, column.get<float>(row)); return true;
    case Type::float64: add_double(into, column.get<double>(row)); return true;
    case Type::int8: add_int64(into, column.get<int8_t>(row)); return true;
    case Type::int16: add_int64(into, column.get<int16_t>(row)); return true;
    case Type::int32: add_int64(into, column.get<int32_t>(row)); return true;
    case Type::date:
      add_big_endian(into, static_cast<uint32_t>(column.get<int32_t>(row)) ^ 0x80000000u, 4);
      return true;
    case Type::int64: case Type::timestamp: add_int64(into, column.get<int64_t>(row)); return true;
    default: {
      size_t bytes;
      const uint8_t* data = column.row_bytes(row, &bytes);
      return add_string(into, data, bytes);
    }
  }
}

bool set_key(const Plan& plan, const std::vector<Builder>& columns, int64_t received_at_micros, Builder& into,
             uint32_t row) {
  for (int32_t index : plan.key) {
    if (index == key_received_at) add_int64(into, received_at_micros);
    else if (!add_part(into, plan.columns[index].type, columns[index], row)) return false;
  }
  into.end_bytes(row);
  return true;
}

}  // namespace weir
