// The exact sum of doubles: the same whatever their order and partition, rounded once, at its end.
//
//   parts  two whole numbers of 128 bits, which take most values: those below 2^53 of which all
//          bits are 2^-80 or more
//   wide   a number of 2,240 bits, which takes all others. Only sums that need it have one.
//
// NaN, or infinities of both signs, make NaN. Infinities of one sign make that infinity. A sum
// beyond the largest double is infinite. Without values there is no sum.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace query {

struct WideSum;

// All zero is the sum of no values. The memory may have the alignment of a double.
struct __attribute__((packed, aligned(8))) ExactSum {
  // Bit 0 of the first part is 2^LOWEST, and that of the second 2^(LOWEST + PART_BITS).
  static constexpr int LOWEST = -80, PART_BITS = 40, PARTS = 2;
  static constexpr size_t BLOCK = 256;

  // A part takes values of 92 bits: 2^34 of them do not overflow.
  __int128 parts[PARTS];
  uint64_t count;
  WideSum* wide;

  // Like all `add`: false where a wide sum finds no memory.
  bool add(double value) {
    uint64_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    // Where the lowest bit of a normal value is. Very large where it is below, as for 0.
    const uint64_t place = (bits >> 52 & 0x7ff) - static_cast<uint64_t>(1075 + LOWEST);
    count++;
    if (__builtin_expect(place >= PART_BITS * PARTS, 0)) return add_other(value);
    const uint64_t mantissa = (bits & ((uint64_t{1} << 52) - 1)) | uint64_t{1} << 52;
    const uint64_t sign = static_cast<uint64_t>(static_cast<int64_t>(bits) >> 63);
    const __int128 whole = static_cast<int64_t>((mantissa ^ sign) - sign);
    const unsigned part = place >= PART_BITS;
    const auto shifted = static_cast<unsigned __int128>(whole) << (part ? place - PART_BITS : place);
    parts[part] += static_cast<__int128>(shifted);
    return true;
  }
  // Up to BLOCK values, without those that are not valid: a quarter of the time of one at a time.
  // `valid` has a bit for each value, or is null if all are valid.
  bool add(const double* values, const uint64_t* valid, size_t size);
  bool add(const ExactSum& other);
  // The sum as bytes, which have a meaning in this process alone, and the sum of such bytes too.
  std::string state() const;
  bool add_state(const char* bytes, size_t size);
  // Frees the wide sum.
  void end();
  double total() const;

 private:
  bool add_other(double value);
};

}  // namespace query
