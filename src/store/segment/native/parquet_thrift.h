// Thrift's compact protocol, as much of it as Parquet's page headers and footer need. Writes into a
// Sink.
#pragma once
#include "parquet.h"

namespace parquet {

class Thrift {
 public:
  enum Wire { TRUE = 1, FALSE = 2, I8 = 3, I16 = 4, I32 = 5, I64 = 6, BINARY = 8, LIST = 9, STRUCT = 12 };

  explicit Thrift(Sink& out) : out_(out) {}

  void i8(int id, int8_t value) { field(id, I8), out_.byte(static_cast<uint8_t>(value)); }
  void i16(int id, int16_t value) { field(id, I16), zigzag(value); }
  void i32(int id, int32_t value) { field(id, I32), zigzag(value); }
  void i64(int id, int64_t value) { field(id, I64), zigzag(value); }
  void boolean(int id, bool value) { field(id, value ? TRUE : FALSE); }
  void bytes(int id, Text text) { field(id, BINARY), element(text); }
  void bytes(int id, const char* text) { bytes(id, Text{reinterpret_cast<const uint8_t*>(text), std::strlen(text)}); }

  // A list's elements follow: structs between begin() and end(), numbers and texts with element().
  void list(int id, Wire of, size_t count) {
    field(id, LIST);
    if (count < 15) return out_.byte(static_cast<uint8_t>(count << 4 | of));
    out_.byte(static_cast<uint8_t>(0xf0 | of));
    varint(count);
  }
  void element(int32_t value) { zigzag(value); }
  void element(Text text) { varint(text.size), out_.put(text.data, text.size); }

  void begin() { last_[++depth_] = 0; }
  void begin(int id) { field(id, STRUCT), begin(); }
  void end() { out_.byte(0), depth_--; }
  void empty(int id) { begin(id), end(); }

 private:
  void field(int id, Wire wire) {
    const int step = id - last_[depth_];
    if (step > 0 && step <= 15) out_.byte(static_cast<uint8_t>(step << 4 | wire));
    else out_.byte(wire), zigzag(id);
    last_[depth_] = id;
  }
  void zigzag(int64_t value) { varint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63)); }
  void varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_.byte(static_cast<uint8_t>(value | 0x80));
    out_.byte(static_cast<uint8_t>(value));
  }

  Sink& out_;
  int last_[8] = {};  // last field of each open struct; Parquet nests five deep
  int depth_ = 0;
};

}  // namespace parquet
