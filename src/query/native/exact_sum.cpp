#include "exact_sum.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>

namespace query {

// Adds a number whose bit 0 is at `place` to a number of some words. Both are in two's complement.
static void add_at(unsigned place, __int128 value, uint64_t* words, unsigned size) {
  const unsigned shift = place % 64;
  const uint64_t sign = value < 0 ? ~uint64_t{0} : 0;
  const auto bits = static_cast<unsigned __int128>(value);
  const auto low = static_cast<uint64_t>(bits), high = static_cast<uint64_t>(bits >> 64);
  const uint64_t shifted[] = {low << shift, shift == 0 ? high : high << shift | low >> (64 - shift),
                              shift == 0 ? sign : sign << shift | high >> (64 - shift)};
  unsigned __int128 carried = 0;
  for (unsigned i = place / 64, word = 0; i < size; i++, word++) {
    if (word >= 3 && carried == (sign & 1)) return;  // nothing changes above
    carried += static_cast<unsigned __int128>(words[i]) + (word < 3 ? shifted[word] : sign);
    words[i] = static_cast<uint64_t>(carried);
    carried >>= 64;
  }
}

// Two's complement, and what is no number.
struct WideSum {
  // The exponent of bit 0, at or below that of the least double.
  static constexpr int PART_WORD = 16, LOWEST = ExactSum::LOWEST - 64 * PART_WORD, WORDS = 35;

  uint64_t words[WORDS];
  bool has_nan, has_plus, has_minus;

  void add(const WideSum& other) {
    unsigned __int128 carried = 0;
    for (int i = 0; i < WORDS; i++) {
      carried += static_cast<unsigned __int128>(words[i]) + other.words[i];
      words[i] = static_cast<uint64_t>(carried);
      carried >>= 64;
    }
    has_nan |= other.has_nan;
    has_plus |= other.has_plus;
    has_minus |= other.has_minus;
  }
};

namespace {

// DuckDB's memory limit does not see wide sums. A million of them, for as many groups, fit.
constexpr int64_t WIDE_BYTES_MAX = int64_t{320} << 20;
std::atomic<int64_t> wide_bytes{0};

WideSum* new_wide() {
  constexpr int64_t bytes = sizeof(WideSum);
  if ((wide_bytes += bytes) <= WIDE_BYTES_MAX)
    if (void* wide = std::calloc(1, bytes)) return static_cast<WideSum*>(wide);
  wide_bytes -= bytes;
  return nullptr;
}

// The nearest double to a number in two's complement; of two equally near ones the even one.
double rounded(uint64_t* words, int size, int lowest) {
  const bool is_negative = words[size - 1] >> 63;
  for (int i = 0, carry = 1; is_negative && i < size; i++) {
    words[i] = ~words[i] + static_cast<uint64_t>(carry);
    carry = carry == 1 && words[i] == 0;
  }
  int top = size - 1;
  while (top >= 0 && words[top] == 0) top--;
  if (top < 0) return 0;
  // The place of the result's lowest bit. The sum has none that is too low for a double.
  const int highest = 64 * top + 63 - __builtin_clzll(words[top]);
  const int last = std::max(highest - 52, 0);
  const int word = last / 64, shift = last % 64;
  uint64_t mantissa = words[word] >> shift;
  if (shift != 0 && word + 1 < size) mantissa |= words[word + 1] << (64 - shift);
  const int half = last - 1;
  if (half >= 0 && (words[half / 64] >> half % 64 & 1) != 0) {
    const uint64_t below = words[half / 64] & ((uint64_t{1} << half % 64) - 1);
    const auto is_set = [](uint64_t each) { return each != 0; };
    mantissa += (mantissa & 1) != 0 || below != 0 || std::any_of(words, words + half / 64, is_set);
  }
  const double value = std::ldexp(static_cast<double>(mantissa), last + lowest);
  return is_negative ? -value : value;
}

// Two values, as all processors have them: 0.97 ns a value. Those of four take 0.57.
typedef double Doubles __attribute__((vector_size(16)));
typedef uint64_t Bits __attribute__((vector_size(16)));
constexpr Bits NO_SIGN = {~uint64_t{0} >> 1, ~uint64_t{0} >> 1};

// Adding 1.5 * 2^(52 + n) to a smaller number and taking it off again rounds to a multiple of 2^n.
double rounder(uint64_t n) {
  const uint64_t bits = (1023 + 52 + n) << 52 | uint64_t{1} << 51;
  double value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The sum of a block as two doubles, which have no error. Returns false where it needs more.
//
// All values are below 2^e. Each is split into a multiple of 2^(e - 42) and a rest. No sum of 1,024
// such multiples has more than 53 bits, and no sum of rests where all are multiples of 2^(e - 85).
bool sum_block(const double (&values)[ExactSum::BLOCK], double& sum, double& rest) {
  constexpr size_t VECTORS = 4, STEP = 2;
  static_assert(ExactSum::BLOCK <= 1024 && ExactSum::BLOCK % (VECTORS * STEP) == 0, "as above");
  Doubles largest[VECTORS] = {}, sums[VECTORS] = {}, rests[VECTORS] = {};
  Bits lost[VECTORS] = {};
  for (size_t i = 0; i < ExactSum::BLOCK;)
    for (size_t v = 0; v < VECTORS; v++, i += STEP) {
      Bits bits;
      std::memcpy(&bits, values + i, sizeof bits);
      const Doubles size = reinterpret_cast<Doubles>(bits & NO_SIGN);
      largest[v] = size > largest[v] ? size : largest[v];
    }
  double most = 0;
  for (const Doubles& two : largest) most = std::max({most, two[0], two[1]});
  if (!(most < 0x1p900 && most > 0x1p-900)) return false;
  const auto e = static_cast<uint64_t>(std::ilogb(most) + 1);
  const double first = rounder(e - 42), second = rounder(e - 85);
  for (size_t i = 0; i < ExactSum::BLOCK;)
    for (size_t v = 0; v < VECTORS; v++, i += STEP) {
      Doubles value;
      std::memcpy(&value, values + i, sizeof value);
      const Doubles multiple = value + first - first;
      const Doubles below = value - multiple;
      sums[v] += multiple;
      rests[v] += below;
      lost[v] |= reinterpret_cast<Bits>(below - (below + second - second)) & NO_SIGN;
    }
  sum = rest = 0;
  Bits all_lost = {};
  for (size_t v = 0; v < VECTORS; v++) {
    sum += sums[v][0] + sums[v][1];
    rest += rests[v][0] + rests[v][1];
    all_lost |= lost[v];
  }
  return (all_lost[0] | all_lost[1]) == 0;  // values that are not finite lose NaN
}

}  // namespace

bool ExactSum::add(const double* values, const uint64_t* valid, size_t size) {
  const auto is_valid = [valid](size_t i) { return valid == nullptr || (valid[i / 64] >> i % 64 & 1) != 0; };
  double block[BLOCK] = {}, sum, rest;
  uint64_t valid_count = 0;
  for (size_t i = 0; i < size; i++) {
    block[i] = is_valid(i) ? values[i] : 0;
    valid_count += is_valid(i);
  }
  bool is_good = true;
  if (sum_block(block, sum, rest)) {
    is_good = add(sum) && add(rest);
    count += valid_count - 2;
  } else {
    for (size_t i = 0; i < size; i++) is_good = (!is_valid(i) || add(values[i])) && is_good;
  }
  return is_good;
}

bool ExactSum::add_other(double value) {
  if (value == 0) return true;
  if (wide == nullptr && (wide = new_wide()) == nullptr) return false;
  if (std::isnan(value)) wide->has_nan = true;
  else if (std::isinf(value)) (value > 0 ? wide->has_plus : wide->has_minus) = true;
  else {
    int exponent;
    const double fraction = std::frexp(value, &exponent);
    // A whole number of 53 bits. Of the least doubles its last bits are 0, below the lowest place.
    auto whole = static_cast<int64_t>(std::ldexp(fraction, 53));
    int place = exponent - 53 - WideSum::LOWEST;
    if (place < 0) whole >>= -place, place = 0;
    add_at(static_cast<unsigned>(place), whole, wide->words, WideSum::WORDS);
  }
  return true;
}

bool ExactSum::add(const ExactSum& other) {
  for (int part = 0; part < PARTS; part++) parts[part] += other.parts[part];
  count += other.count;
  if (other.wide == nullptr) return true;
  if (wide == nullptr && (wide = new_wide()) == nullptr) return false;
  wide->add(*other.wide);
  return true;
}

std::string ExactSum::state() const {
  std::string bytes(reinterpret_cast<const char*>(this), offsetof(ExactSum, wide));
  if (wide != nullptr) bytes.append(reinterpret_cast<const char*>(wide), sizeof(WideSum));
  return bytes;
}

bool ExactSum::add_state(const char* bytes, size_t size) {
  constexpr size_t narrow = offsetof(ExactSum, wide);
  if (size != narrow && size != narrow + sizeof(WideSum)) return false;
  ExactSum other;
  WideSum other_wide;
  std::memcpy(static_cast<void*>(&other), bytes, narrow);
  other.wide = size == narrow ? nullptr : &other_wide;
  if (other.wide != nullptr) std::memcpy(static_cast<void*>(&other_wide), bytes + narrow, sizeof other_wide);
  return add(other);
}

void ExactSum::end() {
  if (wide == nullptr) return;
  std::free(wide);
  wide = nullptr;
  wide_bytes -= sizeof(WideSum);
}

double ExactSum::total() const {
  if (wide != nullptr && (wide->has_nan || (wide->has_plus && wide->has_minus))) return std::nan("");
  if (wide != nullptr && (wide->has_plus || wide->has_minus)) return wide->has_plus ? HUGE_VAL : -HUGE_VAL;
  if (wide == nullptr) {
    uint64_t words[3] = {};
    for (unsigned part = 0; part < PARTS; part++) add_at(PART_BITS * part, parts[part], words, 3);
    return rounded(words, 3, LOWEST);
  }
  WideSum all = *wide;
  for (unsigned part = 0; part < PARTS; part++)
    add_at(64 * WideSum::PART_WORD + PART_BITS * part, parts[part], all.words, WideSum::WORDS);
  return rounded(all.words, WideSum::WORDS, WideSum::LOWEST);
}

}  // namespace query
