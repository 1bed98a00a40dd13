/* SPDX-License-Identifier: Apache-2.0 */
/* With the argument --print: writes tests/golden/digest.txt. */
#include "digest.h"

#include <errno.h>
#include <stdlib.h>

#include "golden.h"
#include "shm_test.h"

#define BYTES_MAX 65536

/* The definition in digest.h, one step after the other and byte by byte; shares nothing with the
 * code under test. */
#define P UINT64_C(0x9e3779b97f4a7c15)

static uint64_t slow_rotl(uint64_t x, int n)
{
	for (; n > 0; n--)
		x = (x << 1) | (x >> 63);
	return x;
}

/* 64 x 64 -> 128 bits, by adding shifted copies. */
static void slow_multiply(uint64_t x, uint64_t y, uint64_t *ret_hi, uint64_t *ret_lo)
{
	uint64_t hi = 0, lo = 0;

	for (int bit = 0; bit < 64; bit++) {
		uint64_t add_lo = x << bit, add_hi = bit == 0 ? 0 : x >> (64 - bit);

		if ((y >> bit & 1) == 0)
			continue;
		lo += add_lo;
		hi += add_hi + (lo < add_lo);
	}
	*ret_hi = hi;
	*ret_lo = lo;
}

static uint64_t slow_word(const uint8_t *data, size_t bytes, size_t at)
{
	uint64_t word = 0;

	for (size_t i = 0; i < 8; i++)
		word += (uint64_t)(at + i < bytes ? data[at + i] : 0) << (8 * i);
	return word;
}

static uint64_t slow_digest(const uint8_t *data, size_t bytes, uint64_t seed)
{
	uint64_t sum = 0, r;

	for (uint64_t i = 0; i * 16 < bytes; i++) {
		uint64_t x = slow_word(data, bytes, i * 16), y = slow_word(data, bytes, i * 16 + 8);
		uint64_t a = (2 * i + 1) * P + seed;
		uint64_t b = (2 * i + 2) * P + slow_rotl(seed, 32);
		uint64_t hi, lo;

		slow_multiply(x ^ a, y ^ b, &hi, &lo);
		sum += lo ^ hi ^ slow_rotl(x, 23) ^ slow_rotl(y ^ a, 47);
	}
	r = sum + bytes * P;
	r ^= r >> 32;
	r *= UINT64_C(0xd6e8feb86659fd93);
	r ^= r >> 32;
	r *= UINT64_C(0xd6e8feb86659fd93);
	r ^= r >> 32;
	return r;
}

static void the_digest_is_its_definition(void **state)
{
	static uint8_t data[BYTES_MAX + 64];
	uint64_t random = 1;

	(void)state;
	test_random_bytes(&random, data, sizeof(data));
	for (size_t bytes = 0; bytes <= 300; bytes++) {
		uint64_t seed = test_random(&random);
		size_t from = test_random(&random) % 64; /* any alignment */

		assert_int_equal(dsr_digest_of(data + from, bytes, seed),
		                 slow_digest(data + from, bytes, seed));
	}
	assert_int_equal(dsr_digest_of(data, BYTES_MAX, 7), slow_digest(data, BYTES_MAX, 7));
	assert_int_equal(dsr_digest_of(NULL, 0, 7), slow_digest(NULL, 0, 7));
	memset(data, 0xff, sizeof(data));
	assert_int_equal(dsr_digest_of(data, 4099, UINT64_MAX),
	                 slow_digest(data, 4099, UINT64_MAX));
}

static void parts_of_any_length_give_the_same_digest_and_copy(void **state)
{
	static uint8_t data[5000], copy[5000 + 16];
	uint64_t random = 2;

	(void)state;
	test_random_bytes(&random, data, sizeof(data));
	for (int round = 0; round < 3000; round++) {
		size_t bytes = test_random(&random) % (sizeof(data) - 7);
		size_t longest = test_random(&random) % 200 + 1;
		const uint8_t *from = data + test_random(&random) % 8;
		uint8_t *to = copy + 8 - test_random(&random) % 8;
		struct dsr_digest digest;

		memset(copy, 0xee, sizeof(copy));
		dsr_digest_init(&digest, (uint64_t)round);
		for (size_t at = 0, n; at < bytes; at += n) {
			n = test_random(&random) % (longest + 1);
			n = n > bytes - at ? bytes - at : n;
			if (round % 2 == 0)
				dsr_digest_add(&digest, from + at, n);
			else
				dsr_digest_copy(&digest, to + at, from + at, n);
		}
		assert_int_equal(dsr_digest_value(&digest),
		                 dsr_digest_of(from, bytes, (uint64_t)round));
		assert_int_equal(dsr_digest_value(&digest),
		                 dsr_digest_of(from, bytes, (uint64_t)round));
		if (round % 2 == 0)
			continue;
		assert_memory_equal(to, from, bytes);
		assert_int_equal(to[-1], 0xee);
		assert_int_equal(to[bytes], 0xee);
	}
}

static void a_part_of_no_bytes_needs_no_address(void **state)
{
	struct dsr_digest digest;

	(void)state;
	dsr_digest_init(&digest, 3);
	dsr_digest_add(&digest, NULL, 0);
	dsr_digest_copy(&digest, NULL, NULL, 0);
	assert_int_equal(dsr_digest_value(&digest), dsr_digest_of("", 0, 3));
}

static void every_single_bit_flip_changes_the_digest(void **state)
{
	static const size_t sizes[] = {1, 7, 8, 15, 16, 17, 31, 64, 100, 1000, 4096};
	static uint8_t data[4096];
	uint64_t random = 3;

	(void)state;
	for (size_t s = 0; s < COUNT_OF(sizes); s++)
		for (int fill = 0; fill < 3; fill++) {
			uint64_t seed = test_random(&random), good;

			memset(data, fill == 1 ? 0xff : 0, sizeof(data));
			if (fill == 2)
				test_random_bytes(&random, data, sizeof(data));
			good = dsr_digest_of(data, sizes[s], seed);
			for (size_t bit = 0; bit < sizes[s] * 8; bit++) {
				data[bit / 8] ^= (uint8_t)(1U << bit % 8);
				if (dsr_digest_of(data, sizes[s], seed) == good)
					fail_msg("bit %zu of %zu bytes", bit, sizes[s]);
				data[bit / 8] ^= (uint8_t)(1U << bit % 8);
			}
		}
}

#define WORDS 128

enum choice { CHOICE_FIRST, CHOICE_EVEN, CHOICE_ODD, CHOICE_RANDOM, CHOICE_COUNT };

/* Marks `count` of the words. */
static void choose_words(enum choice choice, unsigned count, uint64_t *random, bool *ret_chosen)
{
	memset(ret_chosen, 0, WORDS * sizeof(*ret_chosen));
	for (unsigned n = 0; n < count; n++) {
		size_t at = choice == CHOICE_FIRST  ? n
		            : choice == CHOICE_EVEN ? 2 * (size_t)n
		            : choice == CHOICE_ODD  ? 2 * (size_t)n + 1
		                                    : test_random(random) % WORDS;

		while (ret_chosen[at])
			at = (at + 1) % WORDS;
		ret_chosen[at] = true;
	}
}

/* One line of a bus that is wrong in several words: flipped, stuck at 0, stuck at 1. */
static void one_bit_wrong_in_several_words_never_passes(void **state)
{
	uint64_t words[WORDS], wrong[WORDS], random = 4, tried = 0;
	bool chosen[WORDS];

	(void)state;
	for (unsigned round = 0; round < 64; round++) {
		uint64_t seed = test_random(&random), good;
		enum choice choice = (enum choice)(round % CHOICE_COUNT);
		unsigned fault = round / CHOICE_COUNT % 3;

		test_random_bytes(&random, words, sizeof(words));
		if (round % 16 == 15)
			memset(words, 0, sizeof(words));
		good = dsr_digest_of(words, sizeof(words), seed);
		for (unsigned bit = 0; bit < 64; bit++)
			for (unsigned count = 2; count <= 64; count++) {
				uint64_t mask = UINT64_C(1) << bit;

				choose_words(choice, count, &random, chosen);
				for (size_t i = 0; i < WORDS; i++)
					wrong[i] = !chosen[i]   ? words[i]
					           : fault == 0 ? words[i] ^ mask
					           : fault == 1 ? words[i] & ~mask
					                        : words[i] | mask;
				if (memcmp(wrong, words, sizeof(words)) == 0)
					continue;
				tried++;
				if (dsr_digest_of(wrong, sizeof(wrong), seed) == good)
					fail_msg("bit %u in %u words, seed %llx", bit, count,
					         (unsigned long long)seed);
			}
	}
	assert_true(tried > 200000);
}

static void the_place_of_words_and_units_counts(void **state)
{
	uint64_t words[WORDS], swapped[WORDS], random = 5, good;

	(void)state;
	test_random_bytes(&random, words, sizeof(words));
	good = dsr_digest_of(words, sizeof(words), 9);
	for (size_t i = 0; i < WORDS; i++)
		for (size_t j = 0; j < i; j++) {
			memcpy(swapped, words, sizeof(words));
			swapped[i] = words[j];
			swapped[j] = words[i];
			assert_int_not_equal(dsr_digest_of(swapped, sizeof(words), 9), good);
		}
	for (size_t i = 0; i < WORDS; i += 2)
		for (size_t j = 0; j < i; j += 2) {
			memcpy(swapped, words, sizeof(words));
			memcpy(swapped + i, words + j, 16);
			memcpy(swapped + j, words + i, 16);
			assert_int_not_equal(dsr_digest_of(swapped, sizeof(words), 9), good);
		}
	for (size_t by = 1; by < WORDS; by++) {
		for (size_t i = 0; i < WORDS; i++)
			swapped[i] = words[(i + by) % WORDS];
		assert_int_not_equal(dsr_digest_of(swapped, sizeof(words), 9), good);
	}
}

static void another_length_of_zeros_is_another_digest(void **state)
{
	static uint8_t zeros[1024];
	uint64_t digests[sizeof(zeros)];

	(void)state;
	for (size_t n = 0; n < sizeof(zeros); n++) {
		digests[n] = dsr_digest_of(zeros, n, 0);
		for (size_t m = 0; m < n; m++)
			assert_int_not_equal(digests[n], digests[m]);
	}
}

static void another_seed_key_or_lane_is_another_digest(void **state)
{
	struct dsr_key key = {{0}}, other;
	uint8_t data[48] = {0};
	uint64_t seen[1 + 63 + 256], count = 0;

	(void)state;
	for (uint32_t lane = 0; lane < DSR_LANES_MAX; lane++)
		seen[count++] = dsr_digest_of(data, sizeof(data), dsr_digest_seed(&key, lane));
	for (unsigned bit = 0; bit < 256; bit++) {
		other = key;
		other.b[bit / 8] ^= (uint8_t)(1U << bit % 8);
		seen[count++] = dsr_digest_of(data, sizeof(data), dsr_digest_seed(&other, 0));
	}
	for (uint64_t i = 0; i < count; i++)
		for (uint64_t j = 0; j < i; j++)
			assert_int_not_equal(seen[i], seen[j]);
}

#define AVALANCHE_BYTES 64
#define AVALANCHE_ROUNDS 400

/* Each input bit, payload and seed alike, flips each bit of the digest in 30 to 70 % of cases. */
static void every_input_bit_reaches_every_bit_of_the_digest(void **state)
{
	static uint32_t flips[AVALANCHE_BYTES * 8 + 64][64];
	uint8_t data[AVALANCHE_BYTES];
	uint64_t random = 6;

	(void)state;
	memset(flips, 0, sizeof(flips));
	for (unsigned round = 0; round < AVALANCHE_ROUNDS; round++) {
		uint64_t seed = test_random(&random), good, changed;

		test_random_bytes(&random, data, sizeof(data));
		good = dsr_digest_of(data, sizeof(data), seed);
		for (size_t in = 0; in < COUNT_OF(flips); in++) {
			bool is_seed = in >= AVALANCHE_BYTES * 8;
			uint8_t *byte = is_seed ? (uint8_t *)&seed + (in / 8 - AVALANCHE_BYTES)
			                        : &data[in / 8];

			*byte ^= (uint8_t)(1U << in % 8);
			changed = dsr_digest_of(data, sizeof(data), seed) ^ good;
			*byte ^= (uint8_t)(1U << in % 8);
			for (unsigned out = 0; out < 64; out++)
				flips[in][out] += (uint32_t)(changed >> out & 1);
		}
	}
	for (size_t in = 0; in < COUNT_OF(flips); in++)
		for (unsigned out = 0; out < 64; out++)
			if (flips[in][out] < AVALANCHE_ROUNDS * 3 / 10 ||
			    flips[in][out] > AVALANCHE_ROUNDS * 7 / 10)
				fail_msg("input bit %zu flips output bit %u in %u of %d cases", in,
				         out, flips[in][out], AVALANCHE_ROUNDS);
}

static void a_key_is_the_hash_under_a_mask_of_namespace_and_variant(void **state)
{
	uint8_t name[DSR_NAMESPACE_BYTES], other[DSR_NAMESPACE_BYTES];
	struct dsr_key mask, again, key, longer;
	uint8_t hash[33];

	(void)state;
	memset(hash, 0x5a, sizeof(hash));
	dsr_fingerprint("model a", 7, name);
	dsr_fingerprint("model b", 7, other);
	assert_memory_not_equal(name, other, sizeof(name));
	assert_memory_not_equal(name, name + 16, 16);
	dsr_key_mask(name, NULL, 0, &mask);
	dsr_key_mask(name, "", 0, &again);
	assert_memory_equal(&mask, &again, sizeof(mask));
	dsr_key_mask(name, "lora", 4, &again);
	assert_memory_not_equal(&mask, &again, sizeof(mask));
	dsr_key_mask(other, NULL, 0, &again);
	assert_memory_not_equal(&mask, &again, sizeof(mask));

	for (size_t bytes = 0; bytes <= 32; bytes++) {
		assert_int_equal(dsr_key_make(&mask, hash, bytes, &key), 0);
		for (size_t i = 0; i < 32; i++)
			assert_int_equal(key.b[i] ^ mask.b[i], i < bytes ? 0x5a : 0);
	}
	memset(&longer, 0x77, sizeof(longer));
	assert_int_equal(dsr_key_make(&mask, hash, 33, &longer), -EINVAL);
	assert_int_equal(longer.b[0], 0x77);
}

static void fill_pattern(const char *pattern, uint8_t *data, size_t bytes)
{
	uint64_t random = 42;

	for (size_t i = 0; i < bytes; i++)
		data[i] = strcmp(pattern, "zeros") == 0   ? 0
		          : strcmp(pattern, "ones") == 0  ? 0xff
		          : strcmp(pattern, "count") == 0 ? (uint8_t)i
		                                          : (uint8_t)test_random(&random);
}

static void print_digests(FILE *file)
{
	static const char *const patterns[] = {"zeros", "ones", "count", "random"};
	static const uint64_t seeds[] = {0, UINT64_C(0x0123456789abcdef)};
	static uint8_t data[BYTES_MAX];

	for (size_t p = 0; p < COUNT_OF(patterns); p++) {
		fill_pattern(patterns[p], data, sizeof(data));
		for (size_t s = 0; s < COUNT_OF(seeds); s++)
			for (size_t bytes = 0; bytes <= BYTES_MAX;) {
				fprintf(file, "digest %s %zu %016llx %016llx\n", patterns[p], bytes,
				        (unsigned long long)seeds[s],
				        (unsigned long long)dsr_digest_of(data, bytes, seeds[s]));
				bytes = bytes < 64      ? bytes + 1
				        : bytes == 64   ? 1000
				        : bytes == 1000 ? BYTES_MAX
				                        : BYTES_MAX + 1;
			}
	}
}

static void print_bytes(FILE *file, const uint8_t *bytes)
{
	for (size_t i = 0; i < 32; i++)
		fprintf(file, "%02x", bytes[i]);
	fputc('\n', file);
}

static void print_keys(FILE *file)
{
	uint8_t name[DSR_NAMESPACE_BYTES];
	struct dsr_key mask, key;

	dsr_fingerprint("", 0, name);
	fprintf(file, "fingerprint - ");
	print_bytes(file, name);
	dsr_fingerprint("model", 5, name);
	fprintf(file, "fingerprint model ");
	print_bytes(file, name);
	dsr_key_mask(name, NULL, 0, &mask);
	fprintf(file, "mask model - ");
	print_bytes(file, mask.b);
	dsr_key_mask(name, "lora-1", 6, &mask);
	fprintf(file, "mask model lora-1 ");
	print_bytes(file, mask.b);
	(void)dsr_key_make(&mask, "hash", 4, &key);
	fprintf(file, "key model lora-1 hash ");
	print_bytes(file, key.b);
	for (uint32_t lane = 0; lane < DSR_LANES_MAX; lane += 21)
		fprintf(file, "seed model lora-1 hash %u %016llx\n", lane,
		        (unsigned long long)dsr_digest_seed(&key, lane));
}

static void print_vectors(FILE *file)
{
	fputs("# Known answers of shm/digest.h.\n"
	      "# digest PATTERN BYTES SEED DIGEST: PATTERN zeros, ones (0xff), count (byte i = i "
	      "mod\n"
	      "#   256), random (byte i = low byte of the i-th number of splitmix64 from state "
	      "42)\n"
	      "# fingerprint TEXT F(TEXT); - is the empty text\n"
	      "# mask TEXT VARIANT MASK; key TEXT VARIANT HASH KEY; seed TEXT VARIANT HASH LANE "
	      "SEED\n"
	      "# Written by: test_shm_digest --print\n",
	      file);
	print_digests(file);
	print_keys(file);
}

static void the_known_answers_are_those_of_the_golden_file(void **state)
{
	(void)state;
	golden_check("digest.txt", print_vectors);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_digest_is_its_definition),
		cmocka_unit_test(parts_of_any_length_give_the_same_digest_and_copy),
		cmocka_unit_test(a_part_of_no_bytes_needs_no_address),
		cmocka_unit_test(every_single_bit_flip_changes_the_digest),
		cmocka_unit_test(one_bit_wrong_in_several_words_never_passes),
		cmocka_unit_test(the_place_of_words_and_units_counts),
		cmocka_unit_test(another_length_of_zeros_is_another_digest),
		cmocka_unit_test(another_seed_key_or_lane_is_another_digest),
		cmocka_unit_test(every_input_bit_reaches_every_bit_of_the_digest),
		cmocka_unit_test(a_key_is_the_hash_under_a_mask_of_namespace_and_variant),
		cmocka_unit_test(the_known_answers_are_those_of_the_golden_file),
	};

	if (argc == 2 && strcmp(argv[1], "--print") == 0) {
		print_vectors(stdout);
		return 0;
	}
	return cmocka_run_group_tests_name("digest", tests, NULL, NULL);
}
