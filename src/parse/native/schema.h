// A schema as the kernel holds it, and the numbers that it shares with the TypeScript side. Their
// meaning is in format/schema.ts, format/batch-layout.ts, parse/kernel.ts, parse/event-error.ts and
// util/limits.ts.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weir {

// In the order of COLUMN_TYPE.
enum class Type : int32_t { boolean, string, float32, float64, int8, int16, int32, int64, date, timestamp, json };
constexpr int32_t type_count = 11;

// KIND of format/batch-layout.ts.
enum class Kind : int32_t { binary = 1, boolean, i8, i16, i32, i64, f32, f64 };

// EVENT_ERROR of event-error.ts. error_undecided never leaves the kernel: a long id needs SHA-256,
// this process has none, and the reference parser must decide.
constexpr int32_t error_not_object = 1, error_missing = 2, error_wrong_type = 3, error_out_of_range = 4,
                  error_not_integral = 5, error_bad_timestamp = 6, error_bad_date = 7, error_undecided = -1;

// FOUND of event-error.ts.
constexpr int32_t found_nothing = 0, found_null = 1, found_boolean = 2, found_number = 3, found_string = 4,
                  found_object = 5, found_array = 6;

// Words of the request table (kernel.ts), DOCUMENT.undecided, and limits (util/limits.ts).
constexpr size_t request_words = 6, request_offset = 0, request_bytes = 1, request_flags = 2,
                 request_received_at = 3, request_bits = 4;
constexpr int32_t flag_all_or_nothing = 1, document_undecided = 1;
constexpr size_t body_bytes_max = 1048320, events_max = 500, depth_max = 1024, key_part_bytes_max = 200;
constexpr int32_t key_received_at = -1;

struct SchemaColumn {
  Type type;
  bool required;
  bool cuts_epochs;  // of the schema: epoch numbers are cut to whole µs, else rounded
  std::string property;
};

struct PoolSchema {
  std::vector<SchemaColumn> columns;
  std::vector<int32_t> key;  // indexes into columns, or key_received_at; empty for no key
  bool deletes = false;      // bodies of DELETE: the batch has no column of the schema
};

inline int32_t error_word(int32_t error, int32_t found) { return error | (found << 8); }

inline Kind kind_of(Type type) {
  switch (type) {
    case Type::boolean: return Kind::boolean;
    case Type::float32: return Kind::f32;
    case Type::float64: return Kind::f64;
    case Type::int8: return Kind::i8;
    case Type::int16: return Kind::i16;
    case Type::int32: case Type::date: return Kind::i32;
    case Type::int64: case Type::timestamp: return Kind::i64;
    default: return Kind::binary;
  }
}

// Bytes that a row takes in a builder: a boolean is a byte there and a bit in the batch; 0 for
// binary.
inline size_t width_of(Kind kind) {
  switch (kind) {
    case Kind::boolean: case Kind::i8: return 1;
    case Kind::i16: return 2;
    case Kind::i32: case Kind::f32: return 4;
    case Kind::i64: case Kind::f64: return 8;
    default: return 0;
  }
}

}  // namespace weir
