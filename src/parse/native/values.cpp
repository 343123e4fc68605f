// The values of each column type, as docs/contract.md describes them. A value of another type is an
// error, never a silent null.
#include "values.h"

#include <cmath>
#include <limits>

#include "number.h"

namespace weir {

int32_t found_at(uint8_t first) {
  switch (first) {
    case 'n': return found_null;
    case 't': case 'f': return found_boolean;
    case '"': return found_string;
    case '{': return found_object;
    case '[': return found_array;
    default: return found_number;
  }
}

// Reads the number as an integer of [min, max]. Returns 0 or an error.
static int32_t integer_of(Text literal, int64_t min, int64_t max, int64_t* value) {
  switch (read_integer(literal, value)) {
    case Literal::integer: break;
    case Literal::long_integer: return error_out_of_range;
    case Literal::real:
      switch (read_real_integer(literal, value)) {
        case Real::integer: break;
        case Real::fraction: return error_not_integral;
        case Real::beyond: return error_out_of_range;
      }
  }
  return *value < min || *value > max ? error_out_of_range : 0;
}

template <typename T>
static int32_t set_integer(Text literal, Builder& into, uint32_t row) {
  int64_t value;
  int32_t error = integer_of(literal, std::numeric_limits<T>::min(), std::numeric_limits<T>::max(), &value);
  if (error == 0) into.set<T>(row, static_cast<T>(value));
  return error;
}

// Adding zero makes −0 a 0.
static int32_t set_float(Text literal, Builder& into, uint32_t row) {
  double number = nearest_double(literal);
  // 2^128 − 2^103: from here on a double rounds to an infinite float.
  if (!(std::fabs(number) < 340282356779733661637539395458142568448.0)) return error_out_of_range;
  into.set<float>(row, static_cast<float>(number) + 0.0f);
  return 0;
}

static int32_t set_number(Type type, Text literal, Builder& into, uint32_t row) {
  switch (type) {
    case Type::float32: return set_float(literal, into, row);
    case Type::int8: return set_integer<int8_t>(literal, into, row);
    case Type::int16: return set_integer<int16_t>(literal, into, row);
    case Type::int32: return set_integer<int32_t>(literal, into, row);
    case Type::int64: return set_integer<int64_t>(literal, into, row);
    default: into.set<double>(row, nearest_double(literal) + 0.0); return 0;
  }
}

static bool has_escape(const Document& document, Text text) {
  return document.has_escapes() && std::memchr(text.data, '\\', text.bytes) != nullptr;
}

static int32_t set_string(const Document& document, Text text, Builder& into, uint32_t row) {
  if (has_escape(document, text)) into.grow(unescape(text.data, text.bytes, into.room(text.bytes)));
  else into.add_bytes(text.data, text.bytes);
  into.end_bytes(row);
  return 0;
}

// Reads the text of a time or date. Escapes in it are rare; decoding makes a text no longer.
static bool parse_text(const Document& document, Type type, Text text, int64_t* micros, int32_t* days) {
  Buffer<uint8_t> decoded;
  if (has_escape(document, text)) {
    decoded.reserve(text.bytes);
    size_t bytes = unescape(text.data, text.bytes, decoded.data);
    text = {reinterpret_cast<const char*>(decoded.data), static_cast<uint32_t>(bytes)};
  }
  if (type == Type::date) return parse_date(text.data, text.bytes, days);
  return parse_timestamp(text.data, text.bytes, micros);
}

static bool parse_epoch(Text literal, bool cuts, int64_t* micros) {
  int64_t number;
  switch (read_integer(literal, &number)) {
    case Literal::integer: return epoch_integer(number, cuts, micros);
    case Literal::long_integer: return false;
    default: return epoch_decimal(literal, cuts, micros);
  }
}

static int32_t set_time(const Document& document, const SchemaColumn& column, int32_t found, Text source,
                        Builder& into, uint32_t row) {
  const Type type = column.type;
  int64_t micros;
  int32_t days;
  if (found == found_number && type == Type::timestamp) {
    if (!parse_epoch(source, column.cuts_epochs, &micros)) return error_bad_timestamp;
  } else if (found != found_string) {
    return error_wrong_type;
  } else if (!parse_text(document, type, {source.data + 1, source.bytes - 2}, &micros, &days)) {
    return type == Type::date ? error_bad_date : error_bad_timestamp;
  }
  if (type == Type::date) into.set<int32_t>(row, days);
  else into.set<int64_t>(row, micros);
  return 0;
}

static int32_t set_present(const Document& document, const SchemaColumn& column, int32_t found, Text source,
                           Builder& into, uint32_t row) {
  switch (column.type) {
    case Type::string:
      if (found != found_string) return error_wrong_type;
      return set_string(document, {source.data + 1, source.bytes - 2}, into, row);
    case Type::timestamp: case Type::date: return set_time(document, column, found, source, into, row);
    case Type::boolean:
      if (found != found_boolean) return error_wrong_type;
      into.set<uint8_t>(row, source.data[0] == 't');
      return 0;
    case Type::json:
      into.add_bytes(source.data, source.bytes);
      into.end_bytes(row);
      return 0;
    default: return found == found_number ? set_number(column.type, source, into, row) : error_wrong_type;
  }
}

int32_t set_value(const Document& document, const SchemaColumn& column, const Slot* slot, Builder& into,
                  uint32_t row) {
  int32_t found = slot == nullptr ? found_nothing : found_at(*document.at(slot->begin));
  if (found <= found_null) {
    if (column.required) return error_word(error_missing, found);
    into.set_null(row);
    return 0;
  }
  Text source = source_of(document, slot->begin, slot->end);
  int32_t error = set_present(document, column, found, source, into, row);
  return error == 0 ? 0 : error_word(error, found);
}

}  // namespace weir
