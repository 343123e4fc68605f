// The grammar of JSON over structural indexes. An index is a bracket, a comma, a colon, the quote
// that opens a string, or the first byte of another scalar. Between a string and the next index
// there is only white space. Every index is compared with the bytes that may stand there. The zeros
// behind the body may stand nowhere, so each loop ends.
#include "walk.h"

#include "number.h"

namespace weir {

static bool ends_scalar(uint8_t c) {
  return c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

// True where a number, true, false or null stands at `at`, and ends there.
static inline bool scalar_valid(const uint8_t* at) {
  switch (*at) {
    case 't': return std::memcmp(at, "true", 4) == 0 && ends_scalar(at[4]);
    case 'f': return std::memcmp(at, "false", 5) == 0 && ends_scalar(at[5]);
    case 'n': return std::memcmp(at, "null", 4) == 0 && ends_scalar(at[4]);
    default: {
      const uint8_t* end = number_end(at);
      return end != nullptr && ends_scalar(*end);
    }
  }
}

// Skips a container with all in it. `kinds` holds the open brackets.
static bool skip_container(const Document& document, uint32_t& place, uint32_t depth_around) {
  const uint8_t* source = document.source();
  const uint32_t* next = document.places() + place;
  uint8_t kinds[depth_max + 1];
  uint32_t depth = 0;
  uint8_t kind = source[*next];
open:
  next++;
  if (++depth + depth_around > depth_max) return false;
  kinds[depth] = kind;
  if (source[*next] == kind + 2) {  // '{' + 2 is '}', '[' + 2 is ']'
    next++;
    goto close;
  }
  if (kind == '[') goto value;
key:
  if (source[next[0]] != '"' || source[next[1]] != ':') return false;
  next += 2;
value:
  switch (source[*next]) {
    case '"': next++; break;
    case '{': case '[': kind = source[*next]; goto open;
    default:
      if (!scalar_valid(source + *next)) return false;
      next++;
  }
behind: {
  uint8_t c = source[*next];
  if (c == ',') {
    next++;
    if (kind == '{') goto key;
    goto value;
  }
  if (c != kind + 2) return false;
  next++;
}
close:
  if (--depth != 0) {
    kind = kinds[depth];
    goto behind;
  }
  place = static_cast<uint32_t>(next - document.places());
  return true;
}

static inline bool skip(const Document& document, uint32_t& place, uint32_t depth) {
  const uint8_t* at = document.at(place);
  if (*at == '{' || *at == '[') return skip_container(document, place, depth);
  if (*at != '"' && !scalar_valid(at)) return false;
  place++;
  return true;
}

bool skip_value(const Document& document, uint32_t& place, uint32_t depth) { return skip(document, place, depth); }

bool Walk::event(const Document& document, uint32_t& place, uint32_t depth) {
  if (++stamp_ == 0) {  // after 2^32 events old stamps would count again
    for (Slot& slot : slots_) slot.stamp = 0;
    stamp_ = 1;
  }
  return object(document, place, depth, 0);
}

// Returns the decoded key that begins at `place`. The next index is its colon.
inline Text Walk::key(const Document& document, uint32_t place) {
  Text source = source_of(document, place, place + 1);
  Text key = {source.data + 1, source.bytes - 2};
  return document.has_escapes() ? unescaped(key) : key;
}

// Recurses only along the schema's paths, and no deeper than depth_max.
bool Walk::object(const Document& document, uint32_t& place, uint32_t depth, int32_t index) {
  const PathNode& node = paths_.node(index);
  const uint8_t* source = document.source();
  const uint32_t* places = document.places();
  uint32_t next = place + 1;
  if (++depth > depth_max) return false;
  uint8_t behind = source[places[next]];
  if (behind == '}') {
    place = next + 1;
    return true;
  }
  for (;;) {
    if (source[places[next]] != '"' || source[places[next + 1]] != ':') return false;
    int32_t child = node.find(key(document, next));
    next += 2;
    if (child >= 0) {
      if (!value(document, next, depth, child)) return false;
    } else if (source[places[next]] == '"') {
      next++;
    } else if (!skip(document, next, depth)) {
      return false;
    }
    behind = source[places[next++]];
    if (behind == ',') continue;
    place = next;
    return behind == '}';
  }
}

Text Walk::unescaped(Text key) {
  if (std::memchr(key.data, '\\', key.bytes) == nullptr) return key;
  key_.reserve(key.bytes + 8);
  size_t bytes = unescape(key.data, key.bytes, key_.data);
  std::memset(key_.data + bytes, 0, 8);
  return {reinterpret_cast<const char*>(key_.data), static_cast<uint32_t>(bytes)};
}

// Stores the place of a name's value. The last duplicate wins, so all that was found below an
// earlier one is forgotten.
bool Walk::value(const Document& document, uint32_t& place, uint32_t depth, int32_t index) {
  Slot& slot = slots_[index];
  const PathNode& node = paths_.node(index);
  if (slot.stamp == stamp_) paths_.below(index, [this](int32_t below) { slots_[below].stamp = stamp_ - 1; });
  uint32_t begin = place;
  bool into = !node.leaf() && *document.at(place) == '{';
  if (!(into ? object(document, place, depth, index) : skip(document, place, depth))) return false;
  slot = {stamp_, begin, place};
  return true;
}

}  // namespace weir
