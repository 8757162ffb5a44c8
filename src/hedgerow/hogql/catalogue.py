"""The functions that a query may call. Every other function is unknown to HogQL.

No listed function reads files, the network, other tables, dictionaries, settings or the engine's
environment, and none sleeps. An entry is `name arguments [-> engine name] [: result type]`, where
arguments are `2`, `1-3` or `1+`. A group has a default result type.
"""

from hedgerow.hogql.typed_sql import ValueType

ARITHMETIC = """
plus 2 | minus 2 | multiply 2 | divide 2 | intDiv 2 | intDivOrZero 2 | modulo 2 | mod 2 -> modulo
moduloOrZero 2 | positiveModulo 2 | negate 1 | abs 1 | gcd 2 | lcm 2 | sign 1 | e 0 | pi 0 | exp 1
exp2 1 | exp10 1 | log 1 | ln 1 -> log | log2 1 | log10 1 | log1p 1 | sqrt 1 | cbrt 1 | erf 1
erfc 1 | lgamma 1 | tgamma 1 | sin 1 | cos 1 | tan 1 | asin 1 | acos 1 | atan 1 | atan2 2 | sinh 1
cosh 1 | tanh 1 | asinh 1 | acosh 1 | atanh 1 | hypot 2 | pow 2 | power 2 -> pow | degrees 1
radians 1 | factorial 1 | floor 1-2 | ceil 1-2 | ceiling 1-2 -> ceil | trunc 1-2
truncate 1-2 -> trunc | round 1-2 | roundBankers 1-2 | roundToExp2 1 | roundDown 2 | roundAge 1
roundDuration 1 | widthBucket 4 | width_bucket 4 -> widthBucket | max2 2 | min2 2
isFinite 1 : bool | isInfinite 1 : bool | isNaN 1 : bool | ifNotFinite 2 | divideDecimal 2-3
multiplyDecimal 2-3 | midpoint 2+ : unknown | byteSize 1+ | byteSwap 1 | rand 0-1 | rand64 0-1
randCanonical 0-1 | randUniform 2 | randNormal 2 | randBernoulli 1 | randExponential 1
"""

BITS = """
bitAnd 2 | bitOr 2 | bitXor 2 | bitNot 1 | bitShiftLeft 2 : unknown | bitShiftRight 2 : unknown
bitRotateLeft 2 | bitRotateRight 2 | bitSlice 2-3 : unknown | bitTest 2 | bitTestAll 2+
bitTestAny 2+ | bitCount 1 | bitHammingDistance 2 | bitPositionsToArray 1 : array
bitmaskToList 1 : string | bitmaskToArray 1 : array
"""

BITMAPS = """
bitmapBuild 1 | bitmapToArray 1 : array | bitmapSubsetInRange 3 | bitmapSubsetLimit 3
subBitmap 3 | bitmapContains 2 : bool | bitmapHasAny 2 : bool | bitmapHasAll 2 : bool
bitmapCardinality 1 : number | bitmapMin 1 : number | bitmapMax 1 : number | bitmapAnd 2
bitmapOr 2 | bitmapXor 2 | bitmapAndnot 2 | bitmapAndCardinality 2 : number
bitmapOrCardinality 2 : number | bitmapXorCardinality 2 : number
bitmapAndnotCardinality 2 : number | bitmapTransform 3
"""

STRINGS = """
length 1 : number | lengthUTF8 1 : number | char_length 1 -> lengthUTF8 : number
character_length 1 -> lengthUTF8 : number | octet_length 1 -> length : number | empty 1 : bool
notEmpty 1 : bool | leftPad 2-3 | lpad 2-3 -> leftPad | rightPad 2-3 | rpad 2-3 -> rightPad
leftPadUTF8 2-3 | rightPadUTF8 2-3 | lower 1 -> lowerUTF8 | lcase 1 -> lowerUTF8
upper 1 -> upperUTF8 | ucase 1 -> upperUTF8 | lowerUTF8 1 | upperUTF8 1 | initcap 1
initcapUTF8 1 | isValidUTF8 1 : bool | isValidASCII 1 : bool | toValidUTF8 1 | repeat 2 | space 1
reverse 1 : unknown | reverseUTF8 1 | concat 1+ | concatWithSeparator 2+
concat_ws 2+ -> concatWithSeparator | substring 2-3 | substr 2-3 -> substring
mid 2-3 -> substring | substringUTF8 2-3 | substringIndex 3 | substringIndexUTF8 3 | left 2
right 2 | leftUTF8 2 | rightUTF8 2 | appendTrailingCharIfAbsent 2 | base64Encode 1
base64Decode 1 -> tryBase64Decode | tryBase64Decode 1 | base64URLEncode 1
base64URLDecode 1 -> tryBase64URLDecode | base58Encode 1 | base58Decode 1 -> tryBase58Decode
startsWith 2 : bool | endsWith 2 : bool | startsWithUTF8 2 : bool | endsWithUTF8 2 : bool
trim 1-2 -> trimBoth | trimLeft 1-2 | ltrim 1-2 -> trimLeft | trimRight 1-2
rtrim 1-2 -> trimRight | trimBoth 1-2 | encodeXMLComponent 1 | decodeXMLComponent 1
decodeHTMLComponent 1 | extractTextFromHTML 1 | ascii 1 : number | char 1+ | chr 1 -> char | hex 1
unhex 1 | bin 1 | unbin 1 | soundex 1 | damerauLevenshteinDistance 2 : number
levenshteinDistance 2 : number | editDistance 2 -> levenshteinDistance : number
editDistanceUTF8 2 : number | byteHammingDistance 2 : number | jaroSimilarity 2 : number
jaroWinklerSimilarity 2 : number | stringJaccardIndex 2 : number
stringJaccardIndexUTF8 2 : number | normalizeUTF8NFC 1 | normalizeUTF8NFD 1 | normalizeUTF8NFKC 1
normalizeUTF8NFKD 1 | firstLine 1 | format 2+ | compareSubstrings 5 : number
sparseGrams 1-3 : array | overlay 3-4 | overlayUTF8 3-4 | caseFoldUTF8 1 | removeDiacriticsUTF8 1
normalizeQuery 1 | translate 3 | translateUTF8 3 | toStringCutToZero 1 | formatReadableSize 1
formatReadableDecimalSize 1 | formatReadableQuantity 1 | formatReadableTimeDelta 1-3
"""

SEARCH = """
replace 3 -> replaceAll : string | replaceOne 3 : string | replaceAll 3 : string
replaceRegexpOne 3 : string | replaceRegexpAll 3 : string | regexpQuoteMeta 1 : string
position 2-3 | positionCaseInsensitive 2-3 | positionUTF8 2-3 | positionCaseInsensitiveUTF8 2-3
locate 2-3 | strpos 2 -> position | multiSearchAllPositions 2 : array
multiSearchAllPositionsUTF8 2 : array | multiSearchAllPositionsCaseInsensitive 2 : array
multiSearchFirstPosition 2 | multiSearchFirstPositionUTF8 2
multiSearchFirstPositionCaseInsensitive 2 | multiSearchFirstIndex 2 | multiSearchFirstIndexUTF8 2
multiSearchFirstIndexCaseInsensitive 2 | multiSearchAny 2 : bool | multiSearchAnyUTF8 2 : bool
multiSearchAnyCaseInsensitive 2 : bool | multiSearchAnyCaseInsensitiveUTF8 2 : bool
match 2 : bool | extract 2 : string | extractAll 2 : array | extractAllGroupsHorizontal 2 : array
extractAllGroupsVertical 2 : array | extractGroups 2 : array | regexpExtract 2-3 : string
regexp_extract 2-3 -> regexpExtract : string | countSubstrings 2-3
countSubstringsCaseInsensitive 2-3 | countSubstringsCaseInsensitiveUTF8 2-3 | countMatches 2
countMatchesCaseInsensitive 2 | ngramDistance 2 | ngramDistanceUTF8 2
ngramDistanceCaseInsensitive 2 | ngramSearch 2 | ngramSearchUTF8 2 | ngramSearchCaseInsensitive 2
hasToken 2 : bool | hasTokenCaseInsensitive 2 : bool | hasTokenOrNull 2 : bool
hasSubsequence 2 : bool | hasSubsequenceCaseInsensitive 2 : bool | hasSubsequenceUTF8 2 : bool
splitByChar 2-3 : array | splitByString 2-3 : array | splitByRegexp 2-3 : array
splitByWhitespace 1-2 : array | splitByNonAlpha 1-2 : array | tokens 1-2 : array
arrayStringConcat 1-2 : string | alphaTokens 1-2 : array | ngrams 2 : array
naturalSortKey 1 : string
"""

CONVERSIONS = """
toTypeName 1 : string | reinterpretAsUInt8 1 : number | reinterpretAsUInt16 1 : number
reinterpretAsUInt32 1 : number | reinterpretAsUInt64 1 : number | reinterpretAsInt8 1 : number
reinterpretAsInt16 1 : number | reinterpretAsInt32 1 : number | reinterpretAsInt64 1 : number
reinterpretAsFloat32 1 : number | reinterpretAsFloat64 1 : number | reinterpretAsString 1 : string
reinterpretAsUUID 1 : uuid | toFixedString 2 : string | toNullable 1 | assumeNotNull 1
materialize 1 | identity 1 | toInt8OrNull 1 : number | toInt16OrNull 1 : number
toInt32OrNull 1 : number | toInt64OrNull 1 : number | toUInt8OrNull 1 : number
toUInt16OrNull 1 : number | toUInt32OrNull 1 : number | toUInt64OrNull 1 : number
toFloat32OrNull 1 : number | toFloat64OrNull 1 : number | toInt64OrZero 1 : number
toUInt64OrZero 1 : number | toFloat64OrZero 1 : number | toDecimal32OrNull 2 : number
toDecimal64OrNull 2 : number | toDecimal128OrNull 2 : number | toUUIDOrNull 1 : uuid
toUUIDOrZero 1 : uuid | toDateOrNull 1 : date | toLowCardinality 1
toBase58 1 -> base58Encode : string | _toInt8 1 -> toInt8 : number
_toInt16 1 -> toInt16 : number | _toInt32 1 -> toInt32 : number | _toInt64 1 -> toInt64 : number
_toUInt8 1 -> toUInt8 : number | _toUInt16 1 -> toUInt16 : number
_toUInt32 1 -> toUInt32 : number | _toUInt64 1 -> toUInt64 : number
_toUInt128 1 -> toUInt128 : number | _toInt128 1 -> toInt128 : number
_toFloat32 1 -> toFloat32 : number | _toFloat64 1 -> toFloat64 : number
_toString 1 -> toString : string | _toDate 1 -> toDate : date
_toDateTime 1-2 -> toDateTime : datetime
"""

DATES = """
timeZoneOffset 1 : number | toTimeZone 2 : datetime | timezoneOf 1 : string | toYear 1 : number
year 1 -> toYear : number | toQuarter 1 : number | quarter 1 -> toQuarter : number
toMonth 1 : number | month 1 -> toMonth : number | toDayOfYear 1 : number
dayOfYear 1 -> toDayOfYear : number | toDayOfMonth 1 : number | day 1 -> toDayOfMonth : number
dayOfMonth 1 -> toDayOfMonth : number | toDayOfWeek 1-2 : number
dayOfWeek 1-2 -> toDayOfWeek : number | toHour 1 : number | hour 1 -> toHour : number
toMinute 1 : number | minute 1 -> toMinute : number | toSecond 1 : number
second 1 -> toSecond : number | toMillisecond 1 : number | toMicrosecond 1 : number
toWeek 1-2 : number | week 1-2 -> toWeek : number | toYearWeek 1-2 : number
yearweek 1-2 -> toYearWeek : number | toISOYear 1 : number | toISOWeek 1 : number
toYYYYMM 1 : number | toYYYYMMDD 1 : number | toYYYYMMDDhhmmss 1 : number
toUnixTimestamp 1-2 : number | toUnixTimestamp64Milli 1 : number
toUnixTimestamp64Micro 1 : number | toUnixTimestamp64Second 1 : number
fromUnixTimestamp64Milli 1-2 | fromUnixTimestamp64Micro 1-2 | fromUnixTimestamp64Second 1-2
fromUnixTimestamp 1-3 | toStartOfYear 1 | toStartOfISOYear 1 | toStartOfQuarter 1
toStartOfMonth 1 | toStartOfWeek 1-2 | toStartOfDay 1 | toStartOfHour 1 | toStartOfMinute 1
toStartOfSecond 1 | toStartOfMillisecond 1 | toStartOfMicrosecond 1 | toStartOfFiveMinutes 1
toStartOfFiveMinute 1 -> toStartOfFiveMinutes | toStartOfTenMinutes 1 | toStartOfFifteenMinutes 1
toStartOfInterval 2-3 | toLastDayOfMonth 1 : date | last_day 1 -> toLastDayOfMonth : date
toLastDayOfWeek 1-2 : date | toMonday 1 : date | toTime 1 | dateTrunc 2-3
date_trunc 2-3 -> dateTrunc | dateDiff 3-4 : number | date_diff 3-4 -> dateDiff : number
age 3-4 : number | dateName 2-3 : string | monthName 1 : string | formatDateTime 2-3 : string
date_format 2-3 -> formatDateTime : string | formatDateTimeInJodaSyntax 2-3 : string
parseDateTimeOrNull 1-3 | parseDateTimeBestEffort 1-2 -> parseDateTimeBestEffortOrNull
parseDateTimeBestEffortOrNull 1-2
parseDateTimeBestEffortUS 1-2 -> parseDateTimeBestEffortUSOrNull
parseDateTimeBestEffortUSOrNull 1-2
parseDateTime64BestEffort 1-3 -> parseDateTime64BestEffortOrNull
parseDateTime64BestEffortOrNull 1-3 | parseDateTimeInJodaSyntaxOrNull 1-3 | makeDate 3 : date
makeDateTime 6-7 | makeDateTime64 6-9 | addYears 2 | addQuarters 2 | addMonths 2 | addWeeks 2
addDays 2 | addHours 2 | addMinutes 2 | addSeconds 2 | addMilliseconds 2 | addMicroseconds 2
subtractYears 2 | subtractQuarters 2 | subtractMonths 2 | subtractWeeks 2 | subtractDays 2
subtractHours 2 | subtractMinutes 2 | subtractSeconds 2 | subtractMilliseconds 2
subtractMicroseconds 2 | addInterval 2 : unknown | subtractInterval 2 : unknown
toIntervalSecond 1 : unknown | toIntervalMinute 1 : unknown | toIntervalHour 1 : unknown
toIntervalDay 1 : unknown | toIntervalWeek 1 : unknown | toIntervalMonth 1 : unknown
toIntervalQuarter 1 : unknown | toIntervalYear 1 : unknown | toIntervalMillisecond 1 : unknown
toRelativeYearNum 1 : number | toRelativeQuarterNum 1 : number | toRelativeMonthNum 1 : number
toRelativeWeekNum 1 : number | toRelativeDayNum 1 : number | toRelativeHourNum 1 : number
toRelativeMinuteNum 1 : number | toRelativeSecondNum 1 : number | timeSlot 1
timeSlots 2-4 : array | toDaysSinceYearZero 1-2 : number | fromDaysSinceYearZero 1 : date
toModifiedJulianDay 1 -> toModifiedJulianDayOrNull : number
fromModifiedJulianDay 1 -> fromModifiedJulianDayOrNull : string
"""

CONDITIONS = """
if 3 | multiIf 3+ | coalesce 1+ | ifNull 2 | nvl 2 -> ifNull | nullIf 2 | greatest 1+ | least 1+
isZeroOrNull 1 : bool | transform 3-4 | isNullable 1 : bool | firstNonDefault 1+ | clamp 3
"""

LOGIC = """
and 2+ | or 2+ | xor 2+ | not 1
"""

ARRAYS = """
array 0+ | range 1-3 | emptyArrayString 0 | emptyArrayInt64 0 | emptyArrayFloat64 0
arrayConcat 1+ | arrayElement 2 : unknown | arrayElementOrNull 2 : unknown | has 2 : bool
hasAll 2 : bool | hasAny 2 : bool | hasSubstr 2 : bool | indexOf 2 : number
indexOfAssumeSorted 2 : number | countEqual 2 : number | arrayCount 1+ : number | arrayEnumerate 1
arrayEnumerateUniq 1+ | arrayEnumerateDense 1+ | arrayPopBack 1 | arrayPopFront 1
arrayPushBack 2 | arrayPushFront 2 | arrayResize 2-3 | arraySlice 2-3 | arraySort 1+
arrayReverseSort 1+ | arrayPartialSort 2+ | arrayShuffle 1-2 | arrayUniq 1+ : number
arrayJoin 1 : unknown | arrayDifference 1 | arrayDistinct 1 | arrayIntersect 1+ | arrayUnion 1+
arraySymmetricDifference 1+ | arrayExcept 2 | arrayReduce 2+ : unknown | arrayReverse 1
arrayRotateLeft 2 | arrayRotateRight 2 | arrayShiftLeft 2-3 | arrayShiftRight 2-3 | arrayFlatten 1
flatten 1 -> arrayFlatten | arrayCompact 1+ | arrayZip 1+ | arrayZipUnaligned 1+
arrayAUC 2 : number | arrayMap 2+ | arrayFilter 2+ | arrayFill 2+ | arrayReverseFill 2+
arraySplit 2+ | arrayReverseSplit 2+ | arrayExists 1+ : bool | arrayAll 1+ : bool
arrayFirst 2+ : unknown | arrayFirstOrNull 2+ : unknown | arrayLast 2+ : unknown
arrayLastOrNull 2+ : unknown | arrayFirstIndex 2+ : number | arrayLastIndex 2+ : number
arrayMin 1+ : unknown | arrayMax 1+ : unknown | arraySum 1+ : number | arrayAvg 1+ : number
arrayCumSum 1+ | arrayCumSumNonNegative 1+ | arrayProduct 1 : number | arrayFold 3+ : unknown
arrayWithConstant 2 | arrayDotProduct 2 : number | arrayJaccardIndex 2 : number
arrayNormalizedGini 2 : unknown | arrayRandomSample 2 | arrayLevenshteinDistance 2 : number
"""

TUPLES = """
tuple 0+ | tupleElement 2-3 | tupleConcat 1+ | tupleNames 1 : array
tupleToNameValuePairs 1 : array | tuplePlus 2 | tupleMinus 2 | tupleMultiply 2 | tupleDivide 2
tupleNegate 1 | tupleMultiplyByNumber 2 | tupleDivideByNumber 2 | tupleHammingDistance 2 : number
dotProduct 2 : number | L1Norm 1 : number | L2Norm 1 : number | LinfNorm 1 : number
L1Distance 2 : number | L2Distance 2 : number | LinfDistance 2 : number | L1Normalize 1
L2Normalize 1 | cosineDistance 2 : number | map 0+ | mapFromArrays 2
mapContains 2 -> mapContainsKey : bool | mapContainsKey 2 : bool | mapContainsValue 2 : bool
mapKeys 1 : array | mapValues 1 : array | mapApply 2 | mapFilter 2 | mapConcat 1+ | mapUpdate 2
mapExists 2 : bool | mapAll 2 : bool | mapSort 1-2 | mapReverseSort 1-2 | mapAdd 2+
mapSubtract 2+ | mapPopulateSeries 1-3 | extractKeyValuePairs 1-4 | arrayToMap 2 -> mapFromArrays
"""

JSON = """
JSONHas 1+ : bool | JSONLength 1+ : number | JSONType 1+ : string | JSONExtractUInt 1+ : number
JSONExtractInt 1+ : number | JSONExtractFloat 1+ : number | JSONExtractBool 1+ : bool
JSONExtractString 1+ : string | JSONExtract 2+ | JSONExtractKeys 1+ : array
JSONExtractKeysAndValues 2+ : array | JSONExtractKeysAndValuesRaw 1+ : array
JSONExtractRaw 1+ : string | JSONExtractArrayRaw 1+ : array
JSONExtractStringCaseInsensitive 1+ : string | JSONExtractRawCaseInsensitive 1+ : string
JSON_VALUE 2 : string | JSON_EXISTS 2 : bool | JSON_QUERY 2 : string | toJSONString 1 : string
isValidJSON 1 : bool | JSONArrayLength 1 : number
JSON_ARRAY_LENGTH 1 -> JSONArrayLength : number | JSONMergePatch 1+ : string
simpleJSONExtractString 2 : string | simpleJSONExtractRaw 2 : string
simpleJSONExtractInt 2 : number | simpleJSONExtractFloat 2 : number
simpleJSONExtractBool 2 : bool | simpleJSONHas 2 : bool
visitParamExtractString 2 -> simpleJSONExtractString : string
visitParamExtractRaw 2 -> simpleJSONExtractRaw : string | visitParamHas 2 -> simpleJSONHas : bool
"""

ADDRESSES = """
protocol 1 | domain 1 | domainRFC 1 | domainWithoutWWW 1 | topLevelDomain 1
firstSignificantSubdomain 1 | cutToFirstSignificantSubdomain 1
cutToFirstSignificantSubdomainWithWWW 1 | port 1-2 : number | path 1 | pathFull 1 | queryString 1
fragment 1 | queryStringAndFragment 1 | extractURLParameter 2 | extractURLParameters 1 : array
extractURLParameterNames 1 : array | URLHierarchy 1 : array | URLPathHierarchy 1 : array
encodeURLComponent 1 | decodeURLComponent 1 | encodeURLFormComponent 1 | decodeURLFormComponent 1
netloc 1 | cutWWW 1 | cutQueryString 1 | cutFragment 1 | cutQueryStringAndFragment 1
cutURLParameter 2 | IPv4NumToString 1 | IPv4StringToNum 1 -> IPv4StringToNumOrNull : number
IPv4NumToStringClassC 1 | IPv6NumToString 1 | IPv6StringToNum 1 -> IPv6StringToNumOrNull
IPv4CIDRToRange 2 : unknown | IPv6CIDRToRange 2 : unknown | toIPv4 1 -> toIPv4OrNull : unknown
toIPv6 1 -> toIPv6OrNull : unknown | toIPv4OrNull 1 : unknown | toIPv6OrNull 1 : unknown
isIPv4String 1 : bool | isIPv6String 1 : bool | isIPAddressInRange 2 : bool
IPv4ToIPv6 1 : unknown
"""

HASHES = """
halfMD5 1+ : number | MD5 1 | SHA1 1 | SHA224 1 | SHA256 1 | SHA384 1 | SHA512 1
sipHash64 1+ : number | sipHash128 1+ | cityHash64 1+ : number | farmHash64 1+ : number
farmFingerprint64 1+ : number | metroHash64 1+ : number | murmurHash2_32 1+ : number
murmurHash2_64 1+ : number | murmurHash3_32 1+ : number | murmurHash3_64 1+ : number
murmurHash3_128 1+ | xxHash32 1+ : number | xxHash64 1+ : number | xxh3 1+ : number
intHash32 1 : number | intHash64 1 : number | javaHash 1 : number | hiveHash 1 : number
jumpConsistentHash 2 : number | wyHash64 1 : number | CRC32 1 : number | CRC64 1 : number
URLHash 1-2 : number | ngramSimHash 1-2 : number | wordShingleSimHash 1-2 : number
"""

IDENTIFIERS = """
generateUUIDv4 0-1 | generateUUIDv7 0-1 | UUIDStringToNum 1-2 : string
UUIDNumToString 1-2 : string | UUIDToNum 1-2 : string | UUIDv7ToDateTime 1-2 : datetime
snowflakeIDToDateTime 1-3 : datetime | dateTimeToSnowflakeID 1-2 : number
"""

GEO = """
greatCircleDistance 4 : number | geoDistance 4 : number | greatCircleAngle 4 : number
pointInEllipses 6+ : bool | pointInPolygon 2+ : bool | geohashEncode 2-3 : string
geohashDecode 1 | geohashesInBox 5 : array | h3IsValid 1 : bool | h3GetResolution 1 : number
h3EdgeAngle 1 : number | h3EdgeLengthM 1 : number | h3EdgeLengthKm 1 : number | geoToH3 3 : number
h3ToGeo 1 | h3ToGeoBoundary 1 | h3kRing 2 : array | h3GetBaseCell 1 : number
h3HexAreaM2 1 : number | h3HexAreaKm2 1 : number | h3IndexesAreNeighbors 2 : bool
h3ToChildren 2 : array | h3ToParent 2 : number | h3ToString 1 : string | stringToH3 1 : number
h3IsResClassIII 1 : bool | h3IsPentagon 1 : bool | h3GetFaces 1 : array | h3CellAreaM2 1 : number
h3CellAreaRads2 1 : number | h3NumHexagons 1 : number | h3PointDistM 4 : number
h3PointDistKm 4 : number | h3Distance 2 : number | h3Line 2 : array | h3HexRing 2 : array
h3GetRes0Indexes 0 : array | wkt 1 : string | readWKTPoint 1 | readWKTPolygon 1
polygonAreaCartesian 1 : number | polygonPerimeterCartesian 1 : number
polygonsIntersectCartesian 2 : bool
"""

OTHERS = """
bar 3-4 : string | seriesOutliersDetectTukey 1-4 : array | isConstant 1 : bool
isDecimalOverflow 1-2 : bool | countDigits 1 : number | minSampleSizeConversion 4 : unknown
minSampleSizeContinuous 5 : unknown | toColumnTypeName 1 : string
"""

# Computed over many rows. Any of them takes the endings of `COMBINATORS`.
AGGREGATIONS = """
count 0-1 : number | min 1 | max 1 | sum 1 : number | avg 1 : number | any 1 | any_respect_nulls 1
anyLast 1 | first_value 1 | last_value 1 | anyHeavy 1 | argMin 2 | argMax 2 | stddevPop 1 : number
stddevSamp 1 : number | stddev 1 -> stddevSamp : number | varPop 1 : number | varSamp 1 : number
varPopStable 1 : number | covarPopStable 2 : number
variance 1 -> varSamp : number | covarPop 2 : number | covarSamp 2 : number | corr 2 : number
skewPop 1 : number | skewSamp 1 : number | kurtPop 1 : number | kurtSamp 1 : number
avgWeighted 2 : number | topK 1 : array | topKWeighted 2 : array | approx_top_k 1 : array
approx_top_sum 2 : array | uniq 1+ : number | uniqExact 1+ : number | uniqCombined 1+ : number
uniqCombined64 1+ : number | uniqHLL12 1+ : number | uniqUpTo 1+ : number | groupArray 1 : array
groupUniqArray 1 : array | groupArrayLast 1 : array | groupArrayInsertAt 2 : array
groupArrayMovingAvg 1 : array | groupArrayMovingSum 1 : array | groupArraySample 1 : array
groupArraySorted 1 : array | groupArrayIntersect 1 : array | array_agg 1 -> groupArray : array
groupBitAnd 1 : number | groupBitOr 1 : number | groupBitXor 1 : number | groupBitmap 1 : number
groupConcat 1 : string | sumWithOverflow 1 : number | sumKahan 1 : number | sumCount 1
deltaSum 1 : number | deltaSumTimestamp 2 : number | quantile 1 | quantiles 1 : array
quantileExact 1 | quantilesExact 1 : array | quantileExactLow 1 | quantileExactHigh 1
quantileExactWeighted 2 | quantileExactInclusive 1 | quantileExactExclusive 1
quantileTiming 1 : number | quantilesTiming 1 : array | quantileTimingWeighted 2 : number
quantileDeterministic 2 | quantileTDigest 1 | quantilesTDigest 1 : array
quantileTDigestWeighted 2 | quantileBFloat16 1 | quantileDD 1 | quantileGK 1
quantileInterpolatedWeighted 2 | median 1 | medianExact 1 | medianExactLow 1 | medianExactHigh 1
medianExactWeighted 2 | medianTiming 1 : number | medianTimingWeighted 2 : number
medianDeterministic 2 | medianTDigest 1 | medianTDigestWeighted 2 | medianBFloat16 1
simpleLinearRegression 2 | stochasticLinearRegression 2+ | stochasticLogisticRegression 2+
categoricalInformationValue 2+ : array | cramersV 2 : number | cramersVBiasCorrected 2 : number
theilsU 2 : number | contingency 2 : number | entropy 1+ : number | rankCorr 2 : number
mannWhitneyUTest 2 | studentTTest 2 | welchTTest 2 | kolmogorovSmirnovTest 2 | meanZTest 2
windowFunnel 2+ : number | retention 1+ : array | sequenceMatch 2+ : bool
sequenceCount 2+ : number | intervalLengthSum 2 : number
boundingRatio 2 : number | maxIntersections 2 : number | maxIntersectionsPosition 2 : number
exponentialMovingAverage 2 : number | exponentialTimeDecayedAvg 2 : number
exponentialTimeDecayedSum 2 : number | largestTriangleThreeBuckets 2 : array | histogram 1 : array
singleValueOrNull 1 | sparkbar 2 : string | estimateCompressionRatio 1 : number
analysisOfVariance 2 | bool_and 1 -> min | bool_or 1 -> max
"""

# Only with OVER.
WINDOWS = """
row_number 0 : number | rank 0 : number | dense_rank 0 : number | percent_rank 0 : number
cume_dist 0 : number | ntile 1 : number | lagInFrame 1-3 | leadInFrame 1-3 | lag 1-3 | lead 1-3
nth_value 2
"""

COMBINATORS = ("If", "OrNull", "OrDefault", "Distinct", "Array", "ForEach")

GROUPS: tuple[tuple[str, ValueType, str], ...] = (
    ("Arithmetic and mathematics", ValueType.NUMBER, ARITHMETIC),
    ("Bits", ValueType.NUMBER, BITS),
    ("Bitmaps", ValueType.UNKNOWN, BITMAPS),
    ("Texts", ValueType.STRING, STRINGS),
    ("Searching and splitting", ValueType.NUMBER, SEARCH),
    ("Conversions", ValueType.UNKNOWN, CONVERSIONS),
    ("Dates and times", ValueType.DATETIME, DATES),
    ("Conditions", ValueType.UNKNOWN, CONDITIONS),
    ("Logic", ValueType.BOOL, LOGIC),
    ("Arrays", ValueType.ARRAY, ARRAYS),
    ("Tuples and maps", ValueType.UNKNOWN, TUPLES),
    ("JSON", ValueType.UNKNOWN, JSON),
    ("URLs and addresses", ValueType.STRING, ADDRESSES),
    ("Hashes", ValueType.STRING, HASHES),
    ("Identifiers", ValueType.UUID, IDENTIFIERS),
    ("Geography", ValueType.UNKNOWN, GEO),
    ("Others", ValueType.UNKNOWN, OTHERS),
)
