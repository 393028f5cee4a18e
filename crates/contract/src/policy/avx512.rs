//! A part of the positive list, see [`super`]. Checked and written by the test `policy_table`.

super::forms! {
    Avx512 None(0) [] writes() clobbers() {
        VEX_Kortestw_kr_kr VEX_Kortestq_kr_kr VEX_Kortestb_kr_kr VEX_Kortestd_kr_kr VEX_Ktestw_kr_kr VEX_Ktestq_kr_kr
        VEX_Ktestb_kr_kr VEX_Ktestd_kr_kr
    }
    Avx512 None(0) [] writes(0) clobbers() {
        EVEX_Vmovss_xmm_k1z_xmm_xmm EVEX_Vmovsd_xmm_k1z_xmm_xmm EVEX_Vmovss_xmm_k1z_xmm_xmm_0F11
        EVEX_Vmovsd_xmm_k1z_xmm_xmm_0F11 EVEX_Vmovhlps_xmm_xmm_xmm EVEX_Vmovlhps_xmm_xmm_xmm VEX_Kandw_kr_kr_kr
        VEX_Kandq_kr_kr_kr VEX_Kandb_kr_kr_kr VEX_Kandd_kr_kr_kr VEX_Kandnw_kr_kr_kr VEX_Kandnq_kr_kr_kr
        VEX_Kandnb_kr_kr_kr VEX_Kandnd_kr_kr_kr VEX_Knotw_kr_kr VEX_Knotq_kr_kr VEX_Knotb_kr_kr VEX_Knotd_kr_kr
        VEX_Korw_kr_kr_kr VEX_Korq_kr_kr_kr VEX_Korb_kr_kr_kr VEX_Kord_kr_kr_kr VEX_Kxnorw_kr_kr_kr
        VEX_Kxnorq_kr_kr_kr VEX_Kxnorb_kr_kr_kr VEX_Kxnord_kr_kr_kr VEX_Kxorw_kr_kr_kr VEX_Kxorq_kr_kr_kr
        VEX_Kxorb_kr_kr_kr VEX_Kxord_kr_kr_kr VEX_Kaddw_kr_kr_kr VEX_Kaddq_kr_kr_kr VEX_Kaddb_kr_kr_kr
        VEX_Kaddd_kr_kr_kr VEX_Kunpckwd_kr_kr_kr VEX_Kunpckdq_kr_kr_kr VEX_Kunpckbw_kr_kr_kr VEX_Kmovw_kr_r32
        VEX_Kmovb_kr_r32 VEX_Kmovd_kr_r32 VEX_Kmovq_kr_r64 VEX_Kmovw_r32_kr VEX_Kmovb_r32_kr VEX_Kmovd_r32_kr
        VEX_Kmovq_r64_kr EVEX_Vpextrw_r32_xmm_imm8 EVEX_Vpextrw_r64_xmm_imm8 EVEX_Vpmovm2b_xmm_kr EVEX_Vpmovm2b_ymm_kr
        EVEX_Vpmovm2b_zmm_kr EVEX_Vpmovm2w_xmm_kr EVEX_Vpmovm2w_ymm_kr EVEX_Vpmovm2w_zmm_kr EVEX_Vpmovb2m_kr_xmm
        EVEX_Vpmovb2m_kr_ymm EVEX_Vpmovb2m_kr_zmm EVEX_Vpmovw2m_kr_xmm EVEX_Vpmovw2m_kr_ymm EVEX_Vpmovw2m_kr_zmm
        EVEX_Vpbroadcastmb2q_xmm_kr EVEX_Vpbroadcastmb2q_ymm_kr EVEX_Vpbroadcastmb2q_zmm_kr EVEX_Vpmovm2d_xmm_kr
        EVEX_Vpmovm2d_ymm_kr EVEX_Vpmovm2d_zmm_kr EVEX_Vpmovm2q_xmm_kr EVEX_Vpmovm2q_ymm_kr EVEX_Vpmovm2q_zmm_kr
        EVEX_Vpmovd2m_kr_xmm EVEX_Vpmovd2m_kr_ymm EVEX_Vpmovd2m_kr_zmm EVEX_Vpmovq2m_kr_xmm EVEX_Vpmovq2m_kr_ymm
        EVEX_Vpmovq2m_kr_zmm EVEX_Vpbroadcastmw2d_xmm_kr EVEX_Vpbroadcastmw2d_ymm_kr EVEX_Vpbroadcastmw2d_zmm_kr
        EVEX_Vpbroadcastb_xmm_k1z_r32 EVEX_Vpbroadcastb_ymm_k1z_r32 EVEX_Vpbroadcastb_zmm_k1z_r32
        EVEX_Vpbroadcastw_xmm_k1z_r32 EVEX_Vpbroadcastw_ymm_k1z_r32 EVEX_Vpbroadcastw_zmm_k1z_r32
        EVEX_Vpbroadcastd_xmm_k1z_r32 EVEX_Vpbroadcastd_ymm_k1z_r32 EVEX_Vpbroadcastd_zmm_k1z_r32
        EVEX_Vpbroadcastq_xmm_k1z_r64 EVEX_Vpbroadcastq_ymm_k1z_r64 EVEX_Vpbroadcastq_zmm_k1z_r64
        VEX_Kshiftrb_kr_kr_imm8 VEX_Kshiftrw_kr_kr_imm8 VEX_Kshiftrd_kr_kr_imm8 VEX_Kshiftrq_kr_kr_imm8
        VEX_Kshiftlb_kr_kr_imm8 VEX_Kshiftlw_kr_kr_imm8 VEX_Kshiftld_kr_kr_imm8 VEX_Kshiftlq_kr_kr_imm8
    }
    Avx512 Load(1) [] writes() clobbers() {
        EVEX_Vucomiss_xmm_xmmm32_sae EVEX_Vucomisd_xmm_xmmm64_sae EVEX_Vcomiss_xmm_xmmm32_sae
        EVEX_Vcomisd_xmm_xmmm64_sae
    }
    Avx512 Load(1) [] writes(0) clobbers() {
        EVEX_Vmovups_xmm_k1z_xmmm128 EVEX_Vmovups_ymm_k1z_ymmm256 EVEX_Vmovups_zmm_k1z_zmmm512
        EVEX_Vmovupd_xmm_k1z_xmmm128 EVEX_Vmovupd_ymm_k1z_ymmm256 EVEX_Vmovupd_zmm_k1z_zmmm512 EVEX_Vmovss_xmm_k1z_m32
        EVEX_Vmovsd_xmm_k1z_m64 EVEX_Vmovsldup_xmm_k1z_xmmm128 EVEX_Vmovsldup_ymm_k1z_ymmm256
        EVEX_Vmovsldup_zmm_k1z_zmmm512 EVEX_Vmovddup_xmm_k1z_xmmm64 EVEX_Vmovddup_ymm_k1z_ymmm256
        EVEX_Vmovddup_zmm_k1z_zmmm512 EVEX_Vmovshdup_xmm_k1z_xmmm128 EVEX_Vmovshdup_ymm_k1z_ymmm256
        EVEX_Vmovshdup_zmm_k1z_zmmm512 EVEX_Vmovaps_xmm_k1z_xmmm128 EVEX_Vmovaps_ymm_k1z_ymmm256
        EVEX_Vmovaps_zmm_k1z_zmmm512 EVEX_Vmovapd_xmm_k1z_xmmm128 EVEX_Vmovapd_ymm_k1z_ymmm256
        EVEX_Vmovapd_zmm_k1z_zmmm512 EVEX_Vcvttss2si_r32_xmmm32_sae EVEX_Vcvttss2si_r64_xmmm32_sae
        EVEX_Vcvttsd2si_r32_xmmm64_sae EVEX_Vcvttsd2si_r64_xmmm64_sae EVEX_Vcvtss2si_r32_xmmm32_er
        EVEX_Vcvtss2si_r64_xmmm32_er EVEX_Vcvtsd2si_r32_xmmm64_er EVEX_Vcvtsd2si_r64_xmmm64_er
        EVEX_Vsqrtps_xmm_k1z_xmmm128b32 EVEX_Vsqrtps_ymm_k1z_ymmm256b32 EVEX_Vsqrtps_zmm_k1z_zmmm512b32_er
        EVEX_Vsqrtpd_xmm_k1z_xmmm128b64 EVEX_Vsqrtpd_ymm_k1z_ymmm256b64 EVEX_Vsqrtpd_zmm_k1z_zmmm512b64_er
        EVEX_Vcvtps2pd_xmm_k1z_xmmm64b32 EVEX_Vcvtps2pd_ymm_k1z_xmmm128b32 EVEX_Vcvtps2pd_zmm_k1z_ymmm256b32_sae
        EVEX_Vcvtpd2ps_xmm_k1z_xmmm128b64 EVEX_Vcvtpd2ps_xmm_k1z_ymmm256b64 EVEX_Vcvtpd2ps_ymm_k1z_zmmm512b64_er
        EVEX_Vcvtdq2ps_xmm_k1z_xmmm128b32 EVEX_Vcvtdq2ps_ymm_k1z_ymmm256b32 EVEX_Vcvtdq2ps_zmm_k1z_zmmm512b32_er
        EVEX_Vcvtqq2ps_xmm_k1z_xmmm128b64 EVEX_Vcvtqq2ps_xmm_k1z_ymmm256b64 EVEX_Vcvtqq2ps_ymm_k1z_zmmm512b64_er
        EVEX_Vcvtps2dq_xmm_k1z_xmmm128b32 EVEX_Vcvtps2dq_ymm_k1z_ymmm256b32 EVEX_Vcvtps2dq_zmm_k1z_zmmm512b32_er
        EVEX_Vcvttps2dq_xmm_k1z_xmmm128b32 EVEX_Vcvttps2dq_ymm_k1z_ymmm256b32 EVEX_Vcvttps2dq_zmm_k1z_zmmm512b32_sae
        EVEX_Vmovd_xmm_rm32 EVEX_Vmovq_xmm_rm64 EVEX_Vmovdqa32_xmm_k1z_xmmm128 EVEX_Vmovdqa32_ymm_k1z_ymmm256
        EVEX_Vmovdqa32_zmm_k1z_zmmm512 EVEX_Vmovdqa64_xmm_k1z_xmmm128 EVEX_Vmovdqa64_ymm_k1z_ymmm256
        EVEX_Vmovdqa64_zmm_k1z_zmmm512 EVEX_Vmovdqu32_xmm_k1z_xmmm128 EVEX_Vmovdqu32_ymm_k1z_ymmm256
        EVEX_Vmovdqu32_zmm_k1z_zmmm512 EVEX_Vmovdqu64_xmm_k1z_xmmm128 EVEX_Vmovdqu64_ymm_k1z_ymmm256
        EVEX_Vmovdqu64_zmm_k1z_zmmm512 EVEX_Vmovdqu8_xmm_k1z_xmmm128 EVEX_Vmovdqu8_ymm_k1z_ymmm256
        EVEX_Vmovdqu8_zmm_k1z_zmmm512 EVEX_Vmovdqu16_xmm_k1z_xmmm128 EVEX_Vmovdqu16_ymm_k1z_ymmm256
        EVEX_Vmovdqu16_zmm_k1z_zmmm512 EVEX_Vpshufd_xmm_k1z_xmmm128b32_imm8 EVEX_Vpshufd_ymm_k1z_ymmm256b32_imm8
        EVEX_Vpshufd_zmm_k1z_zmmm512b32_imm8 EVEX_Vpshufhw_xmm_k1z_xmmm128_imm8 EVEX_Vpshufhw_ymm_k1z_ymmm256_imm8
        EVEX_Vpshufhw_zmm_k1z_zmmm512_imm8 EVEX_Vpshuflw_xmm_k1z_xmmm128_imm8 EVEX_Vpshuflw_ymm_k1z_ymmm256_imm8
        EVEX_Vpshuflw_zmm_k1z_zmmm512_imm8 EVEX_Vpsrlw_xmm_k1z_xmmm128_imm8 EVEX_Vpsrlw_ymm_k1z_ymmm256_imm8
        EVEX_Vpsrlw_zmm_k1z_zmmm512_imm8 EVEX_Vpsraw_xmm_k1z_xmmm128_imm8 EVEX_Vpsraw_ymm_k1z_ymmm256_imm8
        EVEX_Vpsraw_zmm_k1z_zmmm512_imm8 EVEX_Vpsllw_xmm_k1z_xmmm128_imm8 EVEX_Vpsllw_ymm_k1z_ymmm256_imm8
        EVEX_Vpsllw_zmm_k1z_zmmm512_imm8 EVEX_Vprord_xmm_k1z_xmmm128b32_imm8 EVEX_Vprord_ymm_k1z_ymmm256b32_imm8
        EVEX_Vprord_zmm_k1z_zmmm512b32_imm8 EVEX_Vprorq_xmm_k1z_xmmm128b64_imm8 EVEX_Vprorq_ymm_k1z_ymmm256b64_imm8
        EVEX_Vprorq_zmm_k1z_zmmm512b64_imm8 EVEX_Vprold_xmm_k1z_xmmm128b32_imm8 EVEX_Vprold_ymm_k1z_ymmm256b32_imm8
        EVEX_Vprold_zmm_k1z_zmmm512b32_imm8 EVEX_Vprolq_xmm_k1z_xmmm128b64_imm8 EVEX_Vprolq_ymm_k1z_ymmm256b64_imm8
        EVEX_Vprolq_zmm_k1z_zmmm512b64_imm8 EVEX_Vpsrld_xmm_k1z_xmmm128b32_imm8 EVEX_Vpsrld_ymm_k1z_ymmm256b32_imm8
        EVEX_Vpsrld_zmm_k1z_zmmm512b32_imm8 EVEX_Vpsrad_xmm_k1z_xmmm128b32_imm8 EVEX_Vpsrad_ymm_k1z_ymmm256b32_imm8
        EVEX_Vpsrad_zmm_k1z_zmmm512b32_imm8 EVEX_Vpsraq_xmm_k1z_xmmm128b64_imm8 EVEX_Vpsraq_ymm_k1z_ymmm256b64_imm8
        EVEX_Vpsraq_zmm_k1z_zmmm512b64_imm8 EVEX_Vpslld_xmm_k1z_xmmm128b32_imm8 EVEX_Vpslld_ymm_k1z_ymmm256b32_imm8
        EVEX_Vpslld_zmm_k1z_zmmm512b32_imm8 EVEX_Vpsrlq_xmm_k1z_xmmm128b64_imm8 EVEX_Vpsrlq_ymm_k1z_ymmm256b64_imm8
        EVEX_Vpsrlq_zmm_k1z_zmmm512b64_imm8 EVEX_Vpsrldq_xmm_xmmm128_imm8 EVEX_Vpsrldq_ymm_ymmm256_imm8
        EVEX_Vpsrldq_zmm_zmmm512_imm8 EVEX_Vpsllq_xmm_k1z_xmmm128b64_imm8 EVEX_Vpsllq_ymm_k1z_ymmm256b64_imm8
        EVEX_Vpsllq_zmm_k1z_zmmm512b64_imm8 EVEX_Vpslldq_xmm_xmmm128_imm8 EVEX_Vpslldq_ymm_ymmm256_imm8
        EVEX_Vpslldq_zmm_zmmm512_imm8 EVEX_Vcvttps2udq_xmm_k1z_xmmm128b32 EVEX_Vcvttps2udq_ymm_k1z_ymmm256b32
        EVEX_Vcvttps2udq_zmm_k1z_zmmm512b32_sae EVEX_Vcvttpd2udq_xmm_k1z_xmmm128b64
        EVEX_Vcvttpd2udq_xmm_k1z_ymmm256b64 EVEX_Vcvttpd2udq_ymm_k1z_zmmm512b64_sae EVEX_Vcvttps2uqq_xmm_k1z_xmmm64b32
        EVEX_Vcvttps2uqq_ymm_k1z_xmmm128b32 EVEX_Vcvttps2uqq_zmm_k1z_ymmm256b32_sae
        EVEX_Vcvttpd2uqq_xmm_k1z_xmmm128b64 EVEX_Vcvttpd2uqq_ymm_k1z_ymmm256b64
        EVEX_Vcvttpd2uqq_zmm_k1z_zmmm512b64_sae EVEX_Vcvttss2usi_r32_xmmm32_sae EVEX_Vcvttss2usi_r64_xmmm32_sae
        EVEX_Vcvttsd2usi_r32_xmmm64_sae EVEX_Vcvttsd2usi_r64_xmmm64_sae EVEX_Vcvtps2udq_xmm_k1z_xmmm128b32
        EVEX_Vcvtps2udq_ymm_k1z_ymmm256b32 EVEX_Vcvtps2udq_zmm_k1z_zmmm512b32_er EVEX_Vcvtpd2udq_xmm_k1z_xmmm128b64
        EVEX_Vcvtpd2udq_xmm_k1z_ymmm256b64 EVEX_Vcvtpd2udq_ymm_k1z_zmmm512b64_er EVEX_Vcvtps2uqq_xmm_k1z_xmmm64b32
        EVEX_Vcvtps2uqq_ymm_k1z_xmmm128b32 EVEX_Vcvtps2uqq_zmm_k1z_ymmm256b32_er EVEX_Vcvtpd2uqq_xmm_k1z_xmmm128b64
        EVEX_Vcvtpd2uqq_ymm_k1z_ymmm256b64 EVEX_Vcvtpd2uqq_zmm_k1z_zmmm512b64_er EVEX_Vcvtss2usi_r32_xmmm32_er
        EVEX_Vcvtss2usi_r64_xmmm32_er EVEX_Vcvtsd2usi_r32_xmmm64_er EVEX_Vcvtsd2usi_r64_xmmm64_er
        EVEX_Vcvttps2qq_xmm_k1z_xmmm64b32 EVEX_Vcvttps2qq_ymm_k1z_xmmm128b32 EVEX_Vcvttps2qq_zmm_k1z_ymmm256b32_sae
        EVEX_Vcvttpd2qq_xmm_k1z_xmmm128b64 EVEX_Vcvttpd2qq_ymm_k1z_ymmm256b64 EVEX_Vcvttpd2qq_zmm_k1z_zmmm512b64_sae
        EVEX_Vcvtudq2pd_xmm_k1z_xmmm64b32 EVEX_Vcvtudq2pd_ymm_k1z_xmmm128b32 EVEX_Vcvtudq2pd_zmm_k1z_ymmm256b32_er
        EVEX_Vcvtuqq2pd_xmm_k1z_xmmm128b64 EVEX_Vcvtuqq2pd_ymm_k1z_ymmm256b64 EVEX_Vcvtuqq2pd_zmm_k1z_zmmm512b64_er
        EVEX_Vcvtudq2ps_xmm_k1z_xmmm128b32 EVEX_Vcvtudq2ps_ymm_k1z_ymmm256b32 EVEX_Vcvtudq2ps_zmm_k1z_zmmm512b32_er
        EVEX_Vcvtuqq2ps_xmm_k1z_xmmm128b64 EVEX_Vcvtuqq2ps_xmm_k1z_ymmm256b64 EVEX_Vcvtuqq2ps_ymm_k1z_zmmm512b64_er
        EVEX_Vcvtps2qq_xmm_k1z_xmmm64b32 EVEX_Vcvtps2qq_ymm_k1z_xmmm128b32 EVEX_Vcvtps2qq_zmm_k1z_ymmm256b32_er
        EVEX_Vcvtpd2qq_xmm_k1z_xmmm128b64 EVEX_Vcvtpd2qq_ymm_k1z_ymmm256b64 EVEX_Vcvtpd2qq_zmm_k1z_zmmm512b64_er
        EVEX_Vmovq_xmm_xmmm64 VEX_Kmovw_kr_km16 VEX_Kmovq_kr_km64 VEX_Kmovb_kr_km8 VEX_Kmovd_kr_km32
        EVEX_Vcvttpd2dq_xmm_k1z_xmmm128b64 EVEX_Vcvttpd2dq_xmm_k1z_ymmm256b64 EVEX_Vcvttpd2dq_ymm_k1z_zmmm512b64_sae
        EVEX_Vcvtdq2pd_xmm_k1z_xmmm64b32 EVEX_Vcvtdq2pd_ymm_k1z_xmmm128b32 EVEX_Vcvtdq2pd_zmm_k1z_ymmm256b32_er
        EVEX_Vcvtqq2pd_xmm_k1z_xmmm128b64 EVEX_Vcvtqq2pd_ymm_k1z_ymmm256b64 EVEX_Vcvtqq2pd_zmm_k1z_zmmm512b64_er
        EVEX_Vcvtpd2dq_xmm_k1z_xmmm128b64 EVEX_Vcvtpd2dq_xmm_k1z_ymmm256b64 EVEX_Vcvtpd2dq_ymm_k1z_zmmm512b64_er
        EVEX_Vcvtph2ps_xmm_k1z_xmmm64 EVEX_Vcvtph2ps_ymm_k1z_xmmm128 EVEX_Vcvtph2ps_zmm_k1z_ymmm256_sae
        EVEX_Vbroadcastss_xmm_k1z_xmmm32 EVEX_Vbroadcastss_ymm_k1z_xmmm32 EVEX_Vbroadcastss_zmm_k1z_xmmm32
        EVEX_Vbroadcastf32x2_ymm_k1z_xmmm64 EVEX_Vbroadcastf32x2_zmm_k1z_xmmm64 EVEX_Vbroadcastsd_ymm_k1z_xmmm64
        EVEX_Vbroadcastsd_zmm_k1z_xmmm64 EVEX_Vbroadcastf32x4_ymm_k1z_m128 EVEX_Vbroadcastf32x4_zmm_k1z_m128
        EVEX_Vbroadcastf64x2_ymm_k1z_m128 EVEX_Vbroadcastf64x2_zmm_k1z_m128 EVEX_Vbroadcastf32x8_zmm_k1z_m256
        EVEX_Vbroadcastf64x4_zmm_k1z_m256 EVEX_Vpabsb_xmm_k1z_xmmm128 EVEX_Vpabsb_ymm_k1z_ymmm256
        EVEX_Vpabsb_zmm_k1z_zmmm512 EVEX_Vpabsw_xmm_k1z_xmmm128 EVEX_Vpabsw_ymm_k1z_ymmm256
        EVEX_Vpabsw_zmm_k1z_zmmm512 EVEX_Vpabsd_xmm_k1z_xmmm128b32 EVEX_Vpabsd_ymm_k1z_ymmm256b32
        EVEX_Vpabsd_zmm_k1z_zmmm512b32 EVEX_Vpabsq_xmm_k1z_xmmm128b64 EVEX_Vpabsq_ymm_k1z_ymmm256b64
        EVEX_Vpabsq_zmm_k1z_zmmm512b64 EVEX_Vpmovsxbw_xmm_k1z_xmmm64 EVEX_Vpmovsxbw_ymm_k1z_xmmm128
        EVEX_Vpmovsxbw_zmm_k1z_ymmm256 EVEX_Vpmovsxbd_xmm_k1z_xmmm32 EVEX_Vpmovsxbd_ymm_k1z_xmmm64
        EVEX_Vpmovsxbd_zmm_k1z_xmmm128 EVEX_Vpmovsxbq_xmm_k1z_xmmm16 EVEX_Vpmovsxbq_ymm_k1z_xmmm32
        EVEX_Vpmovsxbq_zmm_k1z_xmmm64 EVEX_Vpmovsxwd_xmm_k1z_xmmm64 EVEX_Vpmovsxwd_ymm_k1z_xmmm128
        EVEX_Vpmovsxwd_zmm_k1z_ymmm256 EVEX_Vpmovsxwq_xmm_k1z_xmmm32 EVEX_Vpmovsxwq_ymm_k1z_xmmm64
        EVEX_Vpmovsxwq_zmm_k1z_xmmm128 EVEX_Vpmovsxdq_xmm_k1z_xmmm64 EVEX_Vpmovsxdq_ymm_k1z_xmmm128
        EVEX_Vpmovsxdq_zmm_k1z_ymmm256 EVEX_Vmovntdqa_xmm_m128 EVEX_Vmovntdqa_ymm_m256 EVEX_Vmovntdqa_zmm_m512
        EVEX_Vpmovzxbw_xmm_k1z_xmmm64 EVEX_Vpmovzxbw_ymm_k1z_xmmm128 EVEX_Vpmovzxbw_zmm_k1z_ymmm256
        EVEX_Vpmovzxbd_xmm_k1z_xmmm32 EVEX_Vpmovzxbd_ymm_k1z_xmmm64 EVEX_Vpmovzxbd_zmm_k1z_xmmm128
        EVEX_Vpmovzxbq_xmm_k1z_xmmm16 EVEX_Vpmovzxbq_ymm_k1z_xmmm32 EVEX_Vpmovzxbq_zmm_k1z_xmmm64
        EVEX_Vpmovzxwd_xmm_k1z_xmmm64 EVEX_Vpmovzxwd_ymm_k1z_xmmm128 EVEX_Vpmovzxwd_zmm_k1z_ymmm256
        EVEX_Vpmovzxwq_xmm_k1z_xmmm32 EVEX_Vpmovzxwq_ymm_k1z_xmmm64 EVEX_Vpmovzxwq_zmm_k1z_xmmm128
        EVEX_Vpmovzxdq_xmm_k1z_xmmm64 EVEX_Vpmovzxdq_ymm_k1z_xmmm128 EVEX_Vpmovzxdq_zmm_k1z_ymmm256
        EVEX_Vgetexpps_xmm_k1z_xmmm128b32 EVEX_Vgetexpps_ymm_k1z_ymmm256b32 EVEX_Vgetexpps_zmm_k1z_zmmm512b32_sae
        EVEX_Vgetexppd_xmm_k1z_xmmm128b64 EVEX_Vgetexppd_ymm_k1z_ymmm256b64 EVEX_Vgetexppd_zmm_k1z_zmmm512b64_sae
        EVEX_Vplzcntd_xmm_k1z_xmmm128b32 EVEX_Vplzcntd_ymm_k1z_ymmm256b32 EVEX_Vplzcntd_zmm_k1z_zmmm512b32
        EVEX_Vplzcntq_xmm_k1z_xmmm128b64 EVEX_Vplzcntq_ymm_k1z_ymmm256b64 EVEX_Vplzcntq_zmm_k1z_zmmm512b64
        EVEX_Vrcp14ps_xmm_k1z_xmmm128b32 EVEX_Vrcp14ps_ymm_k1z_ymmm256b32 EVEX_Vrcp14ps_zmm_k1z_zmmm512b32
        EVEX_Vrcp14pd_xmm_k1z_xmmm128b64 EVEX_Vrcp14pd_ymm_k1z_ymmm256b64 EVEX_Vrcp14pd_zmm_k1z_zmmm512b64
        EVEX_Vrsqrt14ps_xmm_k1z_xmmm128b32 EVEX_Vrsqrt14ps_ymm_k1z_ymmm256b32 EVEX_Vrsqrt14ps_zmm_k1z_zmmm512b32
        EVEX_Vrsqrt14pd_xmm_k1z_xmmm128b64 EVEX_Vrsqrt14pd_ymm_k1z_ymmm256b64 EVEX_Vrsqrt14pd_zmm_k1z_zmmm512b64
        EVEX_Vpopcntb_xmm_k1z_xmmm128 EVEX_Vpopcntb_ymm_k1z_ymmm256 EVEX_Vpopcntb_zmm_k1z_zmmm512
        EVEX_Vpopcntw_xmm_k1z_xmmm128 EVEX_Vpopcntw_ymm_k1z_ymmm256 EVEX_Vpopcntw_zmm_k1z_zmmm512
        EVEX_Vpopcntd_xmm_k1z_xmmm128b32 EVEX_Vpopcntd_ymm_k1z_ymmm256b32 EVEX_Vpopcntd_zmm_k1z_zmmm512b32
        EVEX_Vpopcntq_xmm_k1z_xmmm128b64 EVEX_Vpopcntq_ymm_k1z_ymmm256b64 EVEX_Vpopcntq_zmm_k1z_zmmm512b64
        EVEX_Vpbroadcastd_xmm_k1z_xmmm32 EVEX_Vpbroadcastd_ymm_k1z_xmmm32 EVEX_Vpbroadcastd_zmm_k1z_xmmm32
        EVEX_Vbroadcasti32x2_xmm_k1z_xmmm64 EVEX_Vbroadcasti32x2_ymm_k1z_xmmm64 EVEX_Vbroadcasti32x2_zmm_k1z_xmmm64
        EVEX_Vpbroadcastq_xmm_k1z_xmmm64 EVEX_Vpbroadcastq_ymm_k1z_xmmm64 EVEX_Vpbroadcastq_zmm_k1z_xmmm64
        EVEX_Vbroadcasti32x4_ymm_k1z_m128 EVEX_Vbroadcasti32x4_zmm_k1z_m128 EVEX_Vbroadcasti64x2_ymm_k1z_m128
        EVEX_Vbroadcasti64x2_zmm_k1z_m128 EVEX_Vbroadcasti32x8_zmm_k1z_m256 EVEX_Vbroadcasti64x4_zmm_k1z_m256
        EVEX_Vpexpandb_xmm_k1z_xmmm128 EVEX_Vpexpandb_ymm_k1z_ymmm256 EVEX_Vpexpandb_zmm_k1z_zmmm512
        EVEX_Vpexpandw_xmm_k1z_xmmm128 EVEX_Vpexpandw_ymm_k1z_ymmm256 EVEX_Vpexpandw_zmm_k1z_zmmm512
        EVEX_Vcvtneps2bf16_xmm_k1z_xmmm128b32 EVEX_Vcvtneps2bf16_xmm_k1z_ymmm256b32
        EVEX_Vcvtneps2bf16_ymm_k1z_zmmm512b32 EVEX_Vpbroadcastb_xmm_k1z_xmmm8 EVEX_Vpbroadcastb_ymm_k1z_xmmm8
        EVEX_Vpbroadcastb_zmm_k1z_xmmm8 EVEX_Vpbroadcastw_xmm_k1z_xmmm16 EVEX_Vpbroadcastw_ymm_k1z_xmmm16
        EVEX_Vpbroadcastw_zmm_k1z_xmmm16 EVEX_Vexpandps_xmm_k1z_xmmm128 EVEX_Vexpandps_ymm_k1z_ymmm256
        EVEX_Vexpandps_zmm_k1z_zmmm512 EVEX_Vexpandpd_xmm_k1z_xmmm128 EVEX_Vexpandpd_ymm_k1z_ymmm256
        EVEX_Vexpandpd_zmm_k1z_zmmm512 EVEX_Vpexpandd_xmm_k1z_xmmm128 EVEX_Vpexpandd_ymm_k1z_ymmm256
        EVEX_Vpexpandd_zmm_k1z_zmmm512 EVEX_Vpexpandq_xmm_k1z_xmmm128 EVEX_Vpexpandq_ymm_k1z_ymmm256
        EVEX_Vpexpandq_zmm_k1z_zmmm512 EVEX_Vpconflictd_xmm_k1z_xmmm128b32 EVEX_Vpconflictd_ymm_k1z_ymmm256b32
        EVEX_Vpconflictd_zmm_k1z_zmmm512b32 EVEX_Vpconflictq_xmm_k1z_xmmm128b64 EVEX_Vpconflictq_ymm_k1z_ymmm256b64
        EVEX_Vpconflictq_zmm_k1z_zmmm512b64 EVEX_Vpermq_ymm_k1z_ymmm256b64_imm8 EVEX_Vpermq_zmm_k1z_zmmm512b64_imm8
        EVEX_Vpermpd_ymm_k1z_ymmm256b64_imm8 EVEX_Vpermpd_zmm_k1z_zmmm512b64_imm8
        EVEX_Vpermilps_xmm_k1z_xmmm128b32_imm8 EVEX_Vpermilps_ymm_k1z_ymmm256b32_imm8
        EVEX_Vpermilps_zmm_k1z_zmmm512b32_imm8 EVEX_Vpermilpd_xmm_k1z_xmmm128b64_imm8
        EVEX_Vpermilpd_ymm_k1z_ymmm256b64_imm8 EVEX_Vpermilpd_zmm_k1z_zmmm512b64_imm8
        EVEX_Vrndscaleps_xmm_k1z_xmmm128b32_imm8 EVEX_Vrndscaleps_ymm_k1z_ymmm256b32_imm8
        EVEX_Vrndscaleps_zmm_k1z_zmmm512b32_imm8_sae EVEX_Vrndscalepd_xmm_k1z_xmmm128b64_imm8
        EVEX_Vrndscalepd_ymm_k1z_ymmm256b64_imm8 EVEX_Vrndscalepd_zmm_k1z_zmmm512b64_imm8_sae
        EVEX_Vgetmantps_xmm_k1z_xmmm128b32_imm8 EVEX_Vgetmantps_ymm_k1z_ymmm256b32_imm8
        EVEX_Vgetmantps_zmm_k1z_zmmm512b32_imm8_sae EVEX_Vgetmantpd_xmm_k1z_xmmm128b64_imm8
        EVEX_Vgetmantpd_ymm_k1z_ymmm256b64_imm8 EVEX_Vgetmantpd_zmm_k1z_zmmm512b64_imm8_sae
        EVEX_Vreduceps_xmm_k1z_xmmm128b32_imm8 EVEX_Vreduceps_ymm_k1z_ymmm256b32_imm8
        EVEX_Vreduceps_zmm_k1z_zmmm512b32_imm8_sae EVEX_Vreducepd_xmm_k1z_xmmm128b64_imm8
        EVEX_Vreducepd_ymm_k1z_ymmm256b64_imm8 EVEX_Vreducepd_zmm_k1z_zmmm512b64_imm8_sae
        EVEX_Vfpclassps_kr_k1_xmmm128b32_imm8 EVEX_Vfpclassps_kr_k1_ymmm256b32_imm8
        EVEX_Vfpclassps_kr_k1_zmmm512b32_imm8 EVEX_Vfpclasspd_kr_k1_xmmm128b64_imm8
        EVEX_Vfpclasspd_kr_k1_ymmm256b64_imm8 EVEX_Vfpclasspd_kr_k1_zmmm512b64_imm8 EVEX_Vfpclassss_kr_k1_xmmm32_imm8
        EVEX_Vfpclasssd_kr_k1_xmmm64_imm8
    }
    Avx512 Load(2) [] writes(0) clobbers() {
        EVEX_Vmovlps_xmm_xmm_m64 EVEX_Vmovlpd_xmm_xmm_m64 EVEX_Vunpcklps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vunpcklps_ymm_k1z_ymm_ymmm256b32 EVEX_Vunpcklps_zmm_k1z_zmm_zmmm512b32
        EVEX_Vunpcklpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vunpcklpd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vunpcklpd_zmm_k1z_zmm_zmmm512b64 EVEX_Vunpckhps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vunpckhps_ymm_k1z_ymm_ymmm256b32 EVEX_Vunpckhps_zmm_k1z_zmm_zmmm512b32
        EVEX_Vunpckhpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vunpckhpd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vunpckhpd_zmm_k1z_zmm_zmmm512b64 EVEX_Vmovhps_xmm_xmm_m64 EVEX_Vmovhpd_xmm_xmm_m64
        EVEX_Vcvtsi2ss_xmm_xmm_rm32_er EVEX_Vcvtsi2ss_xmm_xmm_rm64_er EVEX_Vcvtsi2sd_xmm_xmm_rm32_er
        EVEX_Vcvtsi2sd_xmm_xmm_rm64_er EVEX_Vsqrtss_xmm_k1z_xmm_xmmm32_er EVEX_Vsqrtsd_xmm_k1z_xmm_xmmm64_er
        EVEX_Vandps_xmm_k1z_xmm_xmmm128b32 EVEX_Vandps_ymm_k1z_ymm_ymmm256b32 EVEX_Vandps_zmm_k1z_zmm_zmmm512b32
        EVEX_Vandpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vandpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vandpd_zmm_k1z_zmm_zmmm512b64
        EVEX_Vandnps_xmm_k1z_xmm_xmmm128b32 EVEX_Vandnps_ymm_k1z_ymm_ymmm256b32 EVEX_Vandnps_zmm_k1z_zmm_zmmm512b32
        EVEX_Vandnpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vandnpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vandnpd_zmm_k1z_zmm_zmmm512b64
        EVEX_Vorps_xmm_k1z_xmm_xmmm128b32 EVEX_Vorps_ymm_k1z_ymm_ymmm256b32 EVEX_Vorps_zmm_k1z_zmm_zmmm512b32
        EVEX_Vorpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vorpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vorpd_zmm_k1z_zmm_zmmm512b64
        EVEX_Vxorps_xmm_k1z_xmm_xmmm128b32 EVEX_Vxorps_ymm_k1z_ymm_ymmm256b32 EVEX_Vxorps_zmm_k1z_zmm_zmmm512b32
        EVEX_Vxorpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vxorpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vxorpd_zmm_k1z_zmm_zmmm512b64
        EVEX_Vaddps_xmm_k1z_xmm_xmmm128b32 EVEX_Vaddps_ymm_k1z_ymm_ymmm256b32 EVEX_Vaddps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vaddpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vaddpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vaddpd_zmm_k1z_zmm_zmmm512b64_er
        EVEX_Vaddss_xmm_k1z_xmm_xmmm32_er EVEX_Vaddsd_xmm_k1z_xmm_xmmm64_er EVEX_Vmulps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vmulps_ymm_k1z_ymm_ymmm256b32 EVEX_Vmulps_zmm_k1z_zmm_zmmm512b32_er EVEX_Vmulpd_xmm_k1z_xmm_xmmm128b64
        EVEX_Vmulpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vmulpd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vmulss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vmulsd_xmm_k1z_xmm_xmmm64_er EVEX_Vcvtss2sd_xmm_k1z_xmm_xmmm32_sae EVEX_Vcvtsd2ss_xmm_k1z_xmm_xmmm64_er
        EVEX_Vsubps_xmm_k1z_xmm_xmmm128b32 EVEX_Vsubps_ymm_k1z_ymm_ymmm256b32 EVEX_Vsubps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vsubpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vsubpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vsubpd_zmm_k1z_zmm_zmmm512b64_er
        EVEX_Vsubss_xmm_k1z_xmm_xmmm32_er EVEX_Vsubsd_xmm_k1z_xmm_xmmm64_er EVEX_Vminps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vminps_ymm_k1z_ymm_ymmm256b32 EVEX_Vminps_zmm_k1z_zmm_zmmm512b32_sae EVEX_Vminpd_xmm_k1z_xmm_xmmm128b64
        EVEX_Vminpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vminpd_zmm_k1z_zmm_zmmm512b64_sae EVEX_Vminss_xmm_k1z_xmm_xmmm32_sae
        EVEX_Vminsd_xmm_k1z_xmm_xmmm64_sae EVEX_Vdivps_xmm_k1z_xmm_xmmm128b32 EVEX_Vdivps_ymm_k1z_ymm_ymmm256b32
        EVEX_Vdivps_zmm_k1z_zmm_zmmm512b32_er EVEX_Vdivpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vdivpd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vdivpd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vdivss_xmm_k1z_xmm_xmmm32_er EVEX_Vdivsd_xmm_k1z_xmm_xmmm64_er
        EVEX_Vmaxps_xmm_k1z_xmm_xmmm128b32 EVEX_Vmaxps_ymm_k1z_ymm_ymmm256b32 EVEX_Vmaxps_zmm_k1z_zmm_zmmm512b32_sae
        EVEX_Vmaxpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vmaxpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vmaxpd_zmm_k1z_zmm_zmmm512b64_sae
        EVEX_Vmaxss_xmm_k1z_xmm_xmmm32_sae EVEX_Vmaxsd_xmm_k1z_xmm_xmmm64_sae EVEX_Vpunpcklbw_xmm_k1z_xmm_xmmm128
        EVEX_Vpunpcklbw_ymm_k1z_ymm_ymmm256 EVEX_Vpunpcklbw_zmm_k1z_zmm_zmmm512 EVEX_Vpunpcklwd_xmm_k1z_xmm_xmmm128
        EVEX_Vpunpcklwd_ymm_k1z_ymm_ymmm256 EVEX_Vpunpcklwd_zmm_k1z_zmm_zmmm512 EVEX_Vpunpckldq_xmm_k1z_xmm_xmmm128b32
        EVEX_Vpunpckldq_ymm_k1z_ymm_ymmm256b32 EVEX_Vpunpckldq_zmm_k1z_zmm_zmmm512b32
        EVEX_Vpacksswb_xmm_k1z_xmm_xmmm128 EVEX_Vpacksswb_ymm_k1z_ymm_ymmm256 EVEX_Vpacksswb_zmm_k1z_zmm_zmmm512
        EVEX_Vpcmpgtb_kr_k1_xmm_xmmm128 EVEX_Vpcmpgtb_kr_k1_ymm_ymmm256 EVEX_Vpcmpgtb_kr_k1_zmm_zmmm512
        EVEX_Vpcmpgtw_kr_k1_xmm_xmmm128 EVEX_Vpcmpgtw_kr_k1_ymm_ymmm256 EVEX_Vpcmpgtw_kr_k1_zmm_zmmm512
        EVEX_Vpcmpgtd_kr_k1_xmm_xmmm128b32 EVEX_Vpcmpgtd_kr_k1_ymm_ymmm256b32 EVEX_Vpcmpgtd_kr_k1_zmm_zmmm512b32
        EVEX_Vpackuswb_xmm_k1z_xmm_xmmm128 EVEX_Vpackuswb_ymm_k1z_ymm_ymmm256 EVEX_Vpackuswb_zmm_k1z_zmm_zmmm512
        EVEX_Vpunpckhbw_xmm_k1z_xmm_xmmm128 EVEX_Vpunpckhbw_ymm_k1z_ymm_ymmm256 EVEX_Vpunpckhbw_zmm_k1z_zmm_zmmm512
        EVEX_Vpunpckhwd_xmm_k1z_xmm_xmmm128 EVEX_Vpunpckhwd_ymm_k1z_ymm_ymmm256 EVEX_Vpunpckhwd_zmm_k1z_zmm_zmmm512
        EVEX_Vpunpckhdq_xmm_k1z_xmm_xmmm128b32 EVEX_Vpunpckhdq_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpunpckhdq_zmm_k1z_zmm_zmmm512b32 EVEX_Vpackssdw_xmm_k1z_xmm_xmmm128b32
        EVEX_Vpackssdw_ymm_k1z_ymm_ymmm256b32 EVEX_Vpackssdw_zmm_k1z_zmm_zmmm512b32
        EVEX_Vpunpcklqdq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpunpcklqdq_ymm_k1z_ymm_ymmm256b64
        EVEX_Vpunpcklqdq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpunpckhqdq_xmm_k1z_xmm_xmmm128b64
        EVEX_Vpunpckhqdq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpunpckhqdq_zmm_k1z_zmm_zmmm512b64
        EVEX_Vpcmpeqb_kr_k1_xmm_xmmm128 EVEX_Vpcmpeqb_kr_k1_ymm_ymmm256 EVEX_Vpcmpeqb_kr_k1_zmm_zmmm512
        EVEX_Vpcmpeqw_kr_k1_xmm_xmmm128 EVEX_Vpcmpeqw_kr_k1_ymm_ymmm256 EVEX_Vpcmpeqw_kr_k1_zmm_zmmm512
        EVEX_Vpcmpeqd_kr_k1_xmm_xmmm128b32 EVEX_Vpcmpeqd_kr_k1_ymm_ymmm256b32 EVEX_Vpcmpeqd_kr_k1_zmm_zmmm512b32
        EVEX_Vcvtusi2ss_xmm_xmm_rm32_er EVEX_Vcvtusi2ss_xmm_xmm_rm64_er EVEX_Vcvtusi2sd_xmm_xmm_rm32_er
        EVEX_Vcvtusi2sd_xmm_xmm_rm64_er EVEX_Vcmpps_kr_k1_xmm_xmmm128b32_imm8 EVEX_Vcmpps_kr_k1_ymm_ymmm256b32_imm8
        EVEX_Vcmpps_kr_k1_zmm_zmmm512b32_imm8_sae EVEX_Vcmppd_kr_k1_xmm_xmmm128b64_imm8
        EVEX_Vcmppd_kr_k1_ymm_ymmm256b64_imm8 EVEX_Vcmppd_kr_k1_zmm_zmmm512b64_imm8_sae
        EVEX_Vcmpss_kr_k1_xmm_xmmm32_imm8_sae EVEX_Vcmpsd_kr_k1_xmm_xmmm64_imm8_sae EVEX_Vpinsrw_xmm_xmm_r32m16_imm8
        EVEX_Vpinsrw_xmm_xmm_r64m16_imm8 EVEX_Vshufps_xmm_k1z_xmm_xmmm128b32_imm8
        EVEX_Vshufps_ymm_k1z_ymm_ymmm256b32_imm8 EVEX_Vshufps_zmm_k1z_zmm_zmmm512b32_imm8
        EVEX_Vshufpd_xmm_k1z_xmm_xmmm128b64_imm8 EVEX_Vshufpd_ymm_k1z_ymm_ymmm256b64_imm8
        EVEX_Vshufpd_zmm_k1z_zmm_zmmm512b64_imm8 EVEX_Vpsrlw_xmm_k1z_xmm_xmmm128 EVEX_Vpsrlw_ymm_k1z_ymm_xmmm128
        EVEX_Vpsrlw_zmm_k1z_zmm_xmmm128 EVEX_Vpsrld_xmm_k1z_xmm_xmmm128 EVEX_Vpsrld_ymm_k1z_ymm_xmmm128
        EVEX_Vpsrld_zmm_k1z_zmm_xmmm128 EVEX_Vpsrlq_xmm_k1z_xmm_xmmm128 EVEX_Vpsrlq_ymm_k1z_ymm_xmmm128
        EVEX_Vpsrlq_zmm_k1z_zmm_xmmm128 EVEX_Vpaddq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpaddq_ymm_k1z_ymm_ymmm256b64
        EVEX_Vpaddq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpmullw_xmm_k1z_xmm_xmmm128 EVEX_Vpmullw_ymm_k1z_ymm_ymmm256
        EVEX_Vpmullw_zmm_k1z_zmm_zmmm512 EVEX_Vpsubusb_xmm_k1z_xmm_xmmm128 EVEX_Vpsubusb_ymm_k1z_ymm_ymmm256
        EVEX_Vpsubusb_zmm_k1z_zmm_zmmm512 EVEX_Vpsubusw_xmm_k1z_xmm_xmmm128 EVEX_Vpsubusw_ymm_k1z_ymm_ymmm256
        EVEX_Vpsubusw_zmm_k1z_zmm_zmmm512 EVEX_Vpminub_xmm_k1z_xmm_xmmm128 EVEX_Vpminub_ymm_k1z_ymm_ymmm256
        EVEX_Vpminub_zmm_k1z_zmm_zmmm512 EVEX_Vpandd_xmm_k1z_xmm_xmmm128b32 EVEX_Vpandd_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpandd_zmm_k1z_zmm_zmmm512b32 EVEX_Vpandq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpandq_ymm_k1z_ymm_ymmm256b64
        EVEX_Vpandq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpaddusb_xmm_k1z_xmm_xmmm128 EVEX_Vpaddusb_ymm_k1z_ymm_ymmm256
        EVEX_Vpaddusb_zmm_k1z_zmm_zmmm512 EVEX_Vpaddusw_xmm_k1z_xmm_xmmm128 EVEX_Vpaddusw_ymm_k1z_ymm_ymmm256
        EVEX_Vpaddusw_zmm_k1z_zmm_zmmm512 EVEX_Vpmaxub_xmm_k1z_xmm_xmmm128 EVEX_Vpmaxub_ymm_k1z_ymm_ymmm256
        EVEX_Vpmaxub_zmm_k1z_zmm_zmmm512 EVEX_Vpandnd_xmm_k1z_xmm_xmmm128b32 EVEX_Vpandnd_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpandnd_zmm_k1z_zmm_zmmm512b32 EVEX_Vpandnq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpandnq_ymm_k1z_ymm_ymmm256b64
        EVEX_Vpandnq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpavgb_xmm_k1z_xmm_xmmm128 EVEX_Vpavgb_ymm_k1z_ymm_ymmm256
        EVEX_Vpavgb_zmm_k1z_zmm_zmmm512 EVEX_Vpsraw_xmm_k1z_xmm_xmmm128 EVEX_Vpsraw_ymm_k1z_ymm_xmmm128
        EVEX_Vpsraw_zmm_k1z_zmm_xmmm128 EVEX_Vpsrad_xmm_k1z_xmm_xmmm128 EVEX_Vpsrad_ymm_k1z_ymm_xmmm128
        EVEX_Vpsrad_zmm_k1z_zmm_xmmm128 EVEX_Vpsraq_xmm_k1z_xmm_xmmm128 EVEX_Vpsraq_ymm_k1z_ymm_xmmm128
        EVEX_Vpsraq_zmm_k1z_zmm_xmmm128 EVEX_Vpavgw_xmm_k1z_xmm_xmmm128 EVEX_Vpavgw_ymm_k1z_ymm_ymmm256
        EVEX_Vpavgw_zmm_k1z_zmm_zmmm512 EVEX_Vpmulhuw_xmm_k1z_xmm_xmmm128 EVEX_Vpmulhuw_ymm_k1z_ymm_ymmm256
        EVEX_Vpmulhuw_zmm_k1z_zmm_zmmm512 EVEX_Vpmulhw_xmm_k1z_xmm_xmmm128 EVEX_Vpmulhw_ymm_k1z_ymm_ymmm256
        EVEX_Vpmulhw_zmm_k1z_zmm_zmmm512 EVEX_Vpsubsb_xmm_k1z_xmm_xmmm128 EVEX_Vpsubsb_ymm_k1z_ymm_ymmm256
        EVEX_Vpsubsb_zmm_k1z_zmm_zmmm512 EVEX_Vpsubsw_xmm_k1z_xmm_xmmm128 EVEX_Vpsubsw_ymm_k1z_ymm_ymmm256
        EVEX_Vpsubsw_zmm_k1z_zmm_zmmm512 EVEX_Vpminsw_xmm_k1z_xmm_xmmm128 EVEX_Vpminsw_ymm_k1z_ymm_ymmm256
        EVEX_Vpminsw_zmm_k1z_zmm_zmmm512 EVEX_Vpord_xmm_k1z_xmm_xmmm128b32 EVEX_Vpord_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpord_zmm_k1z_zmm_zmmm512b32 EVEX_Vporq_xmm_k1z_xmm_xmmm128b64 EVEX_Vporq_ymm_k1z_ymm_ymmm256b64
        EVEX_Vporq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpaddsb_xmm_k1z_xmm_xmmm128 EVEX_Vpaddsb_ymm_k1z_ymm_ymmm256
        EVEX_Vpaddsb_zmm_k1z_zmm_zmmm512 EVEX_Vpaddsw_xmm_k1z_xmm_xmmm128 EVEX_Vpaddsw_ymm_k1z_ymm_ymmm256
        EVEX_Vpaddsw_zmm_k1z_zmm_zmmm512 EVEX_Vpmaxsw_xmm_k1z_xmm_xmmm128 EVEX_Vpmaxsw_ymm_k1z_ymm_ymmm256
        EVEX_Vpmaxsw_zmm_k1z_zmm_zmmm512 EVEX_Vpxord_xmm_k1z_xmm_xmmm128b32 EVEX_Vpxord_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32 EVEX_Vpxorq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpxorq_ymm_k1z_ymm_ymmm256b64
        EVEX_Vpxorq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpsllw_xmm_k1z_xmm_xmmm128 EVEX_Vpsllw_ymm_k1z_ymm_xmmm128
        EVEX_Vpsllw_zmm_k1z_zmm_xmmm128 EVEX_Vpslld_xmm_k1z_xmm_xmmm128 EVEX_Vpslld_ymm_k1z_ymm_xmmm128
        EVEX_Vpslld_zmm_k1z_zmm_xmmm128 EVEX_Vpsllq_xmm_k1z_xmm_xmmm128 EVEX_Vpsllq_ymm_k1z_ymm_xmmm128
        EVEX_Vpsllq_zmm_k1z_zmm_xmmm128 EVEX_Vpmuludq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpmuludq_ymm_k1z_ymm_ymmm256b64
        EVEX_Vpmuludq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpmaddwd_xmm_k1z_xmm_xmmm128 EVEX_Vpmaddwd_ymm_k1z_ymm_ymmm256
        EVEX_Vpmaddwd_zmm_k1z_zmm_zmmm512 EVEX_Vpsadbw_xmm_xmm_xmmm128 EVEX_Vpsadbw_ymm_ymm_ymmm256
        EVEX_Vpsadbw_zmm_zmm_zmmm512 EVEX_Vpsubb_xmm_k1z_xmm_xmmm128 EVEX_Vpsubb_ymm_k1z_ymm_ymmm256
        EVEX_Vpsubb_zmm_k1z_zmm_zmmm512 EVEX_Vpsubw_xmm_k1z_xmm_xmmm128 EVEX_Vpsubw_ymm_k1z_ymm_ymmm256
        EVEX_Vpsubw_zmm_k1z_zmm_zmmm512 EVEX_Vpsubd_xmm_k1z_xmm_xmmm128b32 EVEX_Vpsubd_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32 EVEX_Vpsubq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpsubq_ymm_k1z_ymm_ymmm256b64
        EVEX_Vpsubq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpaddb_xmm_k1z_xmm_xmmm128 EVEX_Vpaddb_ymm_k1z_ymm_ymmm256
        EVEX_Vpaddb_zmm_k1z_zmm_zmmm512 EVEX_Vpaddw_xmm_k1z_xmm_xmmm128 EVEX_Vpaddw_ymm_k1z_ymm_ymmm256
        EVEX_Vpaddw_zmm_k1z_zmm_zmmm512 EVEX_Vpaddd_xmm_k1z_xmm_xmmm128b32 EVEX_Vpaddd_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32 EVEX_Vpshufb_xmm_k1z_xmm_xmmm128 EVEX_Vpshufb_ymm_k1z_ymm_ymmm256
        EVEX_Vpshufb_zmm_k1z_zmm_zmmm512 EVEX_Vpmaddubsw_xmm_k1z_xmm_xmmm128 EVEX_Vpmaddubsw_ymm_k1z_ymm_ymmm256
        EVEX_Vpmaddubsw_zmm_k1z_zmm_zmmm512 EVEX_Vpmulhrsw_xmm_k1z_xmm_xmmm128 EVEX_Vpmulhrsw_ymm_k1z_ymm_ymmm256
        EVEX_Vpmulhrsw_zmm_k1z_zmm_zmmm512 EVEX_Vpermilps_xmm_k1z_xmm_xmmm128b32 EVEX_Vpermilps_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpermilps_zmm_k1z_zmm_zmmm512b32 EVEX_Vpermilpd_xmm_k1z_xmm_xmmm128b64
        EVEX_Vpermilpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vpermilpd_zmm_k1z_zmm_zmmm512b64 EVEX_Vpsrlvw_xmm_k1z_xmm_xmmm128
        EVEX_Vpsrlvw_ymm_k1z_ymm_ymmm256 EVEX_Vpsrlvw_zmm_k1z_zmm_zmmm512 EVEX_Vpsravw_xmm_k1z_xmm_xmmm128
        EVEX_Vpsravw_ymm_k1z_ymm_ymmm256 EVEX_Vpsravw_zmm_k1z_zmm_zmmm512 EVEX_Vpsllvw_xmm_k1z_xmm_xmmm128
        EVEX_Vpsllvw_ymm_k1z_ymm_ymmm256 EVEX_Vpsllvw_zmm_k1z_zmm_zmmm512 EVEX_Vprorvd_xmm_k1z_xmm_xmmm128b32
        EVEX_Vprorvd_ymm_k1z_ymm_ymmm256b32 EVEX_Vprorvd_zmm_k1z_zmm_zmmm512b32 EVEX_Vprorvq_xmm_k1z_xmm_xmmm128b64
        EVEX_Vprorvq_ymm_k1z_ymm_ymmm256b64 EVEX_Vprorvq_zmm_k1z_zmm_zmmm512b64 EVEX_Vprolvd_xmm_k1z_xmm_xmmm128b32
        EVEX_Vprolvd_ymm_k1z_ymm_ymmm256b32 EVEX_Vprolvd_zmm_k1z_zmm_zmmm512b32 EVEX_Vprolvq_xmm_k1z_xmm_xmmm128b64
        EVEX_Vprolvq_ymm_k1z_ymm_ymmm256b64 EVEX_Vprolvq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpermps_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpermps_zmm_k1z_zmm_zmmm512b32 EVEX_Vpermpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vpermpd_zmm_k1z_zmm_zmmm512b64
        EVEX_Vptestmb_kr_k1_xmm_xmmm128 EVEX_Vptestmb_kr_k1_ymm_ymmm256 EVEX_Vptestmb_kr_k1_zmm_zmmm512
        EVEX_Vptestmw_kr_k1_xmm_xmmm128 EVEX_Vptestmw_kr_k1_ymm_ymmm256 EVEX_Vptestmw_kr_k1_zmm_zmmm512
        EVEX_Vptestnmb_kr_k1_xmm_xmmm128 EVEX_Vptestnmb_kr_k1_ymm_ymmm256 EVEX_Vptestnmb_kr_k1_zmm_zmmm512
        EVEX_Vptestnmw_kr_k1_xmm_xmmm128 EVEX_Vptestnmw_kr_k1_ymm_ymmm256 EVEX_Vptestnmw_kr_k1_zmm_zmmm512
        EVEX_Vptestmd_kr_k1_xmm_xmmm128b32 EVEX_Vptestmd_kr_k1_ymm_ymmm256b32 EVEX_Vptestmd_kr_k1_zmm_zmmm512b32
        EVEX_Vptestmq_kr_k1_xmm_xmmm128b64 EVEX_Vptestmq_kr_k1_ymm_ymmm256b64 EVEX_Vptestmq_kr_k1_zmm_zmmm512b64
        EVEX_Vptestnmd_kr_k1_xmm_xmmm128b32 EVEX_Vptestnmd_kr_k1_ymm_ymmm256b32 EVEX_Vptestnmd_kr_k1_zmm_zmmm512b32
        EVEX_Vptestnmq_kr_k1_xmm_xmmm128b64 EVEX_Vptestnmq_kr_k1_ymm_ymmm256b64 EVEX_Vptestnmq_kr_k1_zmm_zmmm512b64
        EVEX_Vpmuldq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpmuldq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpmuldq_zmm_k1z_zmm_zmmm512b64
        EVEX_Vpcmpeqq_kr_k1_xmm_xmmm128b64 EVEX_Vpcmpeqq_kr_k1_ymm_ymmm256b64 EVEX_Vpcmpeqq_kr_k1_zmm_zmmm512b64
        EVEX_Vpackusdw_xmm_k1z_xmm_xmmm128b32 EVEX_Vpackusdw_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpackusdw_zmm_k1z_zmm_zmmm512b32 EVEX_Vscalefps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vscalefps_ymm_k1z_ymm_ymmm256b32 EVEX_Vscalefps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vscalefpd_xmm_k1z_xmm_xmmm128b64 EVEX_Vscalefpd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vscalefpd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vscalefss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vscalefsd_xmm_k1z_xmm_xmmm64_er EVEX_Vpermd_ymm_k1z_ymm_ymmm256b32 EVEX_Vpermd_zmm_k1z_zmm_zmmm512b32
        EVEX_Vpermq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpermq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpcmpgtq_kr_k1_xmm_xmmm128b64
        EVEX_Vpcmpgtq_kr_k1_ymm_ymmm256b64 EVEX_Vpcmpgtq_kr_k1_zmm_zmmm512b64 EVEX_Vpminsb_xmm_k1z_xmm_xmmm128
        EVEX_Vpminsb_ymm_k1z_ymm_ymmm256 EVEX_Vpminsb_zmm_k1z_zmm_zmmm512 EVEX_Vpminsd_xmm_k1z_xmm_xmmm128b32
        EVEX_Vpminsd_ymm_k1z_ymm_ymmm256b32 EVEX_Vpminsd_zmm_k1z_zmm_zmmm512b32 EVEX_Vpminsq_xmm_k1z_xmm_xmmm128b64
        EVEX_Vpminsq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpminsq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpminuw_xmm_k1z_xmm_xmmm128
        EVEX_Vpminuw_ymm_k1z_ymm_ymmm256 EVEX_Vpminuw_zmm_k1z_zmm_zmmm512 EVEX_Vpminud_xmm_k1z_xmm_xmmm128b32
        EVEX_Vpminud_ymm_k1z_ymm_ymmm256b32 EVEX_Vpminud_zmm_k1z_zmm_zmmm512b32 EVEX_Vpminuq_xmm_k1z_xmm_xmmm128b64
        EVEX_Vpminuq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpminuq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpmaxsb_xmm_k1z_xmm_xmmm128
        EVEX_Vpmaxsb_ymm_k1z_ymm_ymmm256 EVEX_Vpmaxsb_zmm_k1z_zmm_zmmm512 EVEX_Vpmaxsd_xmm_k1z_xmm_xmmm128b32
        EVEX_Vpmaxsd_ymm_k1z_ymm_ymmm256b32 EVEX_Vpmaxsd_zmm_k1z_zmm_zmmm512b32 EVEX_Vpmaxsq_xmm_k1z_xmm_xmmm128b64
        EVEX_Vpmaxsq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpmaxsq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpmaxuw_xmm_k1z_xmm_xmmm128
        EVEX_Vpmaxuw_ymm_k1z_ymm_ymmm256 EVEX_Vpmaxuw_zmm_k1z_zmm_zmmm512 EVEX_Vpmaxud_xmm_k1z_xmm_xmmm128b32
        EVEX_Vpmaxud_ymm_k1z_ymm_ymmm256b32 EVEX_Vpmaxud_zmm_k1z_zmm_zmmm512b32 EVEX_Vpmaxuq_xmm_k1z_xmm_xmmm128b64
        EVEX_Vpmaxuq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpmaxuq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpmulld_xmm_k1z_xmm_xmmm128b32
        EVEX_Vpmulld_ymm_k1z_ymm_ymmm256b32 EVEX_Vpmulld_zmm_k1z_zmm_zmmm512b32 EVEX_Vpmullq_xmm_k1z_xmm_xmmm128b64
        EVEX_Vpmullq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpmullq_zmm_k1z_zmm_zmmm512b64 EVEX_Vgetexpss_xmm_k1z_xmm_xmmm32_sae
        EVEX_Vgetexpsd_xmm_k1z_xmm_xmmm64_sae EVEX_Vpsrlvd_xmm_k1z_xmm_xmmm128b32 EVEX_Vpsrlvd_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpsrlvd_zmm_k1z_zmm_zmmm512b32 EVEX_Vpsrlvq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpsrlvq_ymm_k1z_ymm_ymmm256b64
        EVEX_Vpsrlvq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpsravd_xmm_k1z_xmm_xmmm128b32 EVEX_Vpsravd_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpsravd_zmm_k1z_zmm_zmmm512b32 EVEX_Vpsravq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpsravq_ymm_k1z_ymm_ymmm256b64
        EVEX_Vpsravq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpsllvd_xmm_k1z_xmm_xmmm128b32 EVEX_Vpsllvd_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpsllvd_zmm_k1z_zmm_zmmm512b32 EVEX_Vpsllvq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpsllvq_ymm_k1z_ymm_ymmm256b64
        EVEX_Vpsllvq_zmm_k1z_zmm_zmmm512b64 EVEX_Vrcp14ss_xmm_k1z_xmm_xmmm32 EVEX_Vrcp14sd_xmm_k1z_xmm_xmmm64
        EVEX_Vrsqrt14ss_xmm_k1z_xmm_xmmm32 EVEX_Vrsqrt14sd_xmm_k1z_xmm_xmmm64 EVEX_Vpdpbusd_xmm_k1z_xmm_xmmm128b32
        EVEX_Vpdpbusd_ymm_k1z_ymm_ymmm256b32 EVEX_Vpdpbusd_zmm_k1z_zmm_zmmm512b32
        EVEX_Vpdpbusds_xmm_k1z_xmm_xmmm128b32 EVEX_Vpdpbusds_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpdpbusds_zmm_k1z_zmm_zmmm512b32 EVEX_Vpdpwssd_xmm_k1z_xmm_xmmm128b32
        EVEX_Vpdpwssd_ymm_k1z_ymm_ymmm256b32 EVEX_Vpdpwssd_zmm_k1z_zmm_zmmm512b32
        EVEX_Vdpbf16ps_xmm_k1z_xmm_xmmm128b32 EVEX_Vdpbf16ps_ymm_k1z_ymm_ymmm256b32
        EVEX_Vdpbf16ps_zmm_k1z_zmm_zmmm512b32 EVEX_Vpdpwssds_xmm_k1z_xmm_xmmm128b32
        EVEX_Vpdpwssds_ymm_k1z_ymm_ymmm256b32 EVEX_Vpdpwssds_zmm_k1z_zmm_zmmm512b32
        EVEX_Vpblendmd_xmm_k1z_xmm_xmmm128b32 EVEX_Vpblendmd_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32 EVEX_Vpblendmq_xmm_k1z_xmm_xmmm128b64
        EVEX_Vpblendmq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpblendmq_zmm_k1z_zmm_zmmm512b64
        EVEX_Vblendmps_xmm_k1z_xmm_xmmm128b32 EVEX_Vblendmps_ymm_k1z_ymm_ymmm256b32
        EVEX_Vblendmps_zmm_k1z_zmm_zmmm512b32 EVEX_Vblendmpd_xmm_k1z_xmm_xmmm128b64
        EVEX_Vblendmpd_ymm_k1z_ymm_ymmm256b64 EVEX_Vblendmpd_zmm_k1z_zmm_zmmm512b64 EVEX_Vpblendmb_xmm_k1z_xmm_xmmm128
        EVEX_Vpblendmb_ymm_k1z_ymm_ymmm256 EVEX_Vpblendmb_zmm_k1z_zmm_zmmm512 EVEX_Vpblendmw_xmm_k1z_xmm_xmmm128
        EVEX_Vpblendmw_ymm_k1z_ymm_ymmm256 EVEX_Vpblendmw_zmm_k1z_zmm_zmmm512 EVEX_Vpshldvw_xmm_k1z_xmm_xmmm128
        EVEX_Vpshldvw_ymm_k1z_ymm_ymmm256 EVEX_Vpshldvw_zmm_k1z_zmm_zmmm512 EVEX_Vpshldvd_xmm_k1z_xmm_xmmm128b32
        EVEX_Vpshldvd_ymm_k1z_ymm_ymmm256b32 EVEX_Vpshldvd_zmm_k1z_zmm_zmmm512b32 EVEX_Vpshldvq_xmm_k1z_xmm_xmmm128b64
        EVEX_Vpshldvq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpshldvq_zmm_k1z_zmm_zmmm512b64 EVEX_Vpshrdvw_xmm_k1z_xmm_xmmm128
        EVEX_Vpshrdvw_ymm_k1z_ymm_ymmm256 EVEX_Vpshrdvw_zmm_k1z_zmm_zmmm512 EVEX_Vcvtne2ps2bf16_xmm_k1z_xmm_xmmm128b32
        EVEX_Vcvtne2ps2bf16_ymm_k1z_ymm_ymmm256b32 EVEX_Vcvtne2ps2bf16_zmm_k1z_zmm_zmmm512b32
        EVEX_Vpshrdvd_xmm_k1z_xmm_xmmm128b32 EVEX_Vpshrdvd_ymm_k1z_ymm_ymmm256b32 EVEX_Vpshrdvd_zmm_k1z_zmm_zmmm512b32
        EVEX_Vpshrdvq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpshrdvq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpshrdvq_zmm_k1z_zmm_zmmm512b64
        EVEX_Vpermi2b_xmm_k1z_xmm_xmmm128 EVEX_Vpermi2b_ymm_k1z_ymm_ymmm256 EVEX_Vpermi2b_zmm_k1z_zmm_zmmm512
        EVEX_Vpermi2w_xmm_k1z_xmm_xmmm128 EVEX_Vpermi2w_ymm_k1z_ymm_ymmm256 EVEX_Vpermi2w_zmm_k1z_zmm_zmmm512
        EVEX_Vpermi2d_xmm_k1z_xmm_xmmm128b32 EVEX_Vpermi2d_ymm_k1z_ymm_ymmm256b32 EVEX_Vpermi2d_zmm_k1z_zmm_zmmm512b32
        EVEX_Vpermi2q_xmm_k1z_xmm_xmmm128b64 EVEX_Vpermi2q_ymm_k1z_ymm_ymmm256b64 EVEX_Vpermi2q_zmm_k1z_zmm_zmmm512b64
        EVEX_Vpermi2ps_xmm_k1z_xmm_xmmm128b32 EVEX_Vpermi2ps_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpermi2ps_zmm_k1z_zmm_zmmm512b32 EVEX_Vpermi2pd_xmm_k1z_xmm_xmmm128b64
        EVEX_Vpermi2pd_ymm_k1z_ymm_ymmm256b64 EVEX_Vpermi2pd_zmm_k1z_zmm_zmmm512b64 EVEX_Vpermt2b_xmm_k1z_xmm_xmmm128
        EVEX_Vpermt2b_ymm_k1z_ymm_ymmm256 EVEX_Vpermt2b_zmm_k1z_zmm_zmmm512 EVEX_Vpermt2w_xmm_k1z_xmm_xmmm128
        EVEX_Vpermt2w_ymm_k1z_ymm_ymmm256 EVEX_Vpermt2w_zmm_k1z_zmm_zmmm512 EVEX_Vpermt2d_xmm_k1z_xmm_xmmm128b32
        EVEX_Vpermt2d_ymm_k1z_ymm_ymmm256b32 EVEX_Vpermt2d_zmm_k1z_zmm_zmmm512b32 EVEX_Vpermt2q_xmm_k1z_xmm_xmmm128b64
        EVEX_Vpermt2q_ymm_k1z_ymm_ymmm256b64 EVEX_Vpermt2q_zmm_k1z_zmm_zmmm512b64
        EVEX_Vpermt2ps_xmm_k1z_xmm_xmmm128b32 EVEX_Vpermt2ps_ymm_k1z_ymm_ymmm256b32
        EVEX_Vpermt2ps_zmm_k1z_zmm_zmmm512b32 EVEX_Vpermt2pd_xmm_k1z_xmm_xmmm128b64
        EVEX_Vpermt2pd_ymm_k1z_ymm_ymmm256b64 EVEX_Vpermt2pd_zmm_k1z_zmm_zmmm512b64
        EVEX_Vpmultishiftqb_xmm_k1z_xmm_xmmm128b64 EVEX_Vpmultishiftqb_ymm_k1z_ymm_ymmm256b64
        EVEX_Vpmultishiftqb_zmm_k1z_zmm_zmmm512b64 EVEX_Vpermb_xmm_k1z_xmm_xmmm128 EVEX_Vpermb_ymm_k1z_ymm_ymmm256
        EVEX_Vpermb_zmm_k1z_zmm_zmmm512 EVEX_Vpermw_xmm_k1z_xmm_xmmm128 EVEX_Vpermw_ymm_k1z_ymm_ymmm256
        EVEX_Vpermw_zmm_k1z_zmm_zmmm512 EVEX_Vpshufbitqmb_kr_k1_xmm_xmmm128 EVEX_Vpshufbitqmb_kr_k1_ymm_ymmm256
        EVEX_Vpshufbitqmb_kr_k1_zmm_zmmm512 EVEX_Vfmaddsub132ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfmaddsub132ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfmaddsub132ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfmaddsub132pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfmaddsub132pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfmaddsub132pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfmsubadd132ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfmsubadd132ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfmsubadd132ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfmsubadd132pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfmsubadd132pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfmsubadd132pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfmadd132ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfmadd132ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfmadd132ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfmadd132pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfmadd132pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfmadd132pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfmadd132ss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vfmadd132sd_xmm_k1z_xmm_xmmm64_er EVEX_Vfmsub132ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfmsub132ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfmsub132ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfmsub132pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfmsub132pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfmsub132pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfmsub132ss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vfmsub132sd_xmm_k1z_xmm_xmmm64_er EVEX_Vfnmadd132ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfnmadd132ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfnmadd132ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfnmadd132pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfnmadd132pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfnmadd132pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfnmadd132ss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vfnmadd132sd_xmm_k1z_xmm_xmmm64_er EVEX_Vfnmsub132ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfnmsub132ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfnmsub132ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfnmsub132pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfnmsub132pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfnmsub132pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfnmsub132ss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vfnmsub132sd_xmm_k1z_xmm_xmmm64_er EVEX_Vfmaddsub213ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfmaddsub213ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfmaddsub213ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfmaddsub213pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfmaddsub213pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfmaddsub213pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfmsubadd213ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfmsubadd213ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfmsubadd213ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfmsubadd213pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfmsubadd213pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfmsubadd213pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfmadd213ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfmadd213ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfmadd213ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfmadd213pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfmadd213pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfmadd213pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfmadd213ss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vfmadd213sd_xmm_k1z_xmm_xmmm64_er EVEX_Vfmsub213ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfmsub213ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfmsub213ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfmsub213pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfmsub213pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfmsub213pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfmsub213ss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vfmsub213sd_xmm_k1z_xmm_xmmm64_er EVEX_Vfnmadd213ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfnmadd213ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfnmadd213ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfnmadd213pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfnmadd213pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfnmadd213pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfnmadd213ss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vfnmadd213sd_xmm_k1z_xmm_xmmm64_er EVEX_Vfnmsub213ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfnmsub213ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfnmsub213ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfnmsub213pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfnmsub213pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfnmsub213pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfnmsub213ss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vfnmsub213sd_xmm_k1z_xmm_xmmm64_er EVEX_Vpmadd52luq_xmm_k1z_xmm_xmmm128b64
        EVEX_Vpmadd52luq_ymm_k1z_ymm_ymmm256b64 EVEX_Vpmadd52luq_zmm_k1z_zmm_zmmm512b64
        EVEX_Vpmadd52huq_xmm_k1z_xmm_xmmm128b64 EVEX_Vpmadd52huq_ymm_k1z_ymm_ymmm256b64
        EVEX_Vpmadd52huq_zmm_k1z_zmm_zmmm512b64 EVEX_Vfmaddsub231ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfmaddsub231ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfmaddsub231ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfmaddsub231pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfmaddsub231pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfmaddsub231pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfmsubadd231ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfmsubadd231ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfmsubadd231ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfmsubadd231pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfmsubadd231pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfmsubadd231pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfmadd231ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfmadd231ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfmadd231ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfmadd231pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfmadd231pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfmadd231pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfmadd231ss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vfmadd231sd_xmm_k1z_xmm_xmmm64_er EVEX_Vfmsub231ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfmsub231ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfmsub231ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfmsub231pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfmsub231pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfmsub231pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfmsub231ss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vfmsub231sd_xmm_k1z_xmm_xmmm64_er EVEX_Vfnmadd231ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfnmadd231ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfnmadd231ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfnmadd231pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfnmadd231pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfnmadd231pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfnmadd231ss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vfnmadd231sd_xmm_k1z_xmm_xmmm64_er EVEX_Vfnmsub231ps_xmm_k1z_xmm_xmmm128b32
        EVEX_Vfnmsub231ps_ymm_k1z_ymm_ymmm256b32 EVEX_Vfnmsub231ps_zmm_k1z_zmm_zmmm512b32_er
        EVEX_Vfnmsub231pd_xmm_k1z_xmm_xmmm128b64 EVEX_Vfnmsub231pd_ymm_k1z_ymm_ymmm256b64
        EVEX_Vfnmsub231pd_zmm_k1z_zmm_zmmm512b64_er EVEX_Vfnmsub231ss_xmm_k1z_xmm_xmmm32_er
        EVEX_Vfnmsub231sd_xmm_k1z_xmm_xmmm64_er EVEX_Vgf2p8mulb_xmm_k1z_xmm_xmmm128
        EVEX_Vgf2p8mulb_ymm_k1z_ymm_ymmm256 EVEX_Vgf2p8mulb_zmm_k1z_zmm_zmmm512 EVEX_Vaesenc_xmm_xmm_xmmm128
        EVEX_Vaesenc_ymm_ymm_ymmm256 EVEX_Vaesenc_zmm_zmm_zmmm512 EVEX_Vaesenclast_xmm_xmm_xmmm128
        EVEX_Vaesenclast_ymm_ymm_ymmm256 EVEX_Vaesenclast_zmm_zmm_zmmm512 EVEX_Vaesdec_xmm_xmm_xmmm128
        EVEX_Vaesdec_ymm_ymm_ymmm256 EVEX_Vaesdec_zmm_zmm_zmmm512 EVEX_Vaesdeclast_xmm_xmm_xmmm128
        EVEX_Vaesdeclast_ymm_ymm_ymmm256 EVEX_Vaesdeclast_zmm_zmm_zmmm512 EVEX_Valignd_xmm_k1z_xmm_xmmm128b32_imm8
        EVEX_Valignd_ymm_k1z_ymm_ymmm256b32_imm8 EVEX_Valignd_zmm_k1z_zmm_zmmm512b32_imm8
        EVEX_Valignq_xmm_k1z_xmm_xmmm128b64_imm8 EVEX_Valignq_ymm_k1z_ymm_ymmm256b64_imm8
        EVEX_Valignq_zmm_k1z_zmm_zmmm512b64_imm8 EVEX_Vrndscaless_xmm_k1z_xmm_xmmm32_imm8_sae
        EVEX_Vrndscalesd_xmm_k1z_xmm_xmmm64_imm8_sae EVEX_Vpalignr_xmm_k1z_xmm_xmmm128_imm8
        EVEX_Vpalignr_ymm_k1z_ymm_ymmm256_imm8 EVEX_Vpalignr_zmm_k1z_zmm_zmmm512_imm8
        EVEX_Vinsertf32x4_ymm_k1z_ymm_xmmm128_imm8 EVEX_Vinsertf32x4_zmm_k1z_zmm_xmmm128_imm8
        EVEX_Vinsertf64x2_ymm_k1z_ymm_xmmm128_imm8 EVEX_Vinsertf64x2_zmm_k1z_zmm_xmmm128_imm8
        EVEX_Vinsertf32x8_zmm_k1z_zmm_ymmm256_imm8 EVEX_Vinsertf64x4_zmm_k1z_zmm_ymmm256_imm8
        EVEX_Vpcmpud_kr_k1_xmm_xmmm128b32_imm8 EVEX_Vpcmpud_kr_k1_ymm_ymmm256b32_imm8
        EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8 EVEX_Vpcmpuq_kr_k1_xmm_xmmm128b64_imm8
        EVEX_Vpcmpuq_kr_k1_ymm_ymmm256b64_imm8 EVEX_Vpcmpuq_kr_k1_zmm_zmmm512b64_imm8
        EVEX_Vpcmpd_kr_k1_xmm_xmmm128b32_imm8 EVEX_Vpcmpd_kr_k1_ymm_ymmm256b32_imm8
        EVEX_Vpcmpd_kr_k1_zmm_zmmm512b32_imm8 EVEX_Vpcmpq_kr_k1_xmm_xmmm128b64_imm8
        EVEX_Vpcmpq_kr_k1_ymm_ymmm256b64_imm8 EVEX_Vpcmpq_kr_k1_zmm_zmmm512b64_imm8 EVEX_Vpinsrb_xmm_xmm_r32m8_imm8
        EVEX_Vpinsrb_xmm_xmm_r64m8_imm8 EVEX_Vinsertps_xmm_xmm_xmmm32_imm8 EVEX_Vpinsrd_xmm_xmm_rm32_imm8
        EVEX_Vpinsrq_xmm_xmm_rm64_imm8 EVEX_Vshuff32x4_ymm_k1z_ymm_ymmm256b32_imm8
        EVEX_Vshuff32x4_zmm_k1z_zmm_zmmm512b32_imm8 EVEX_Vshuff64x2_ymm_k1z_ymm_ymmm256b64_imm8
        EVEX_Vshuff64x2_zmm_k1z_zmm_zmmm512b64_imm8 EVEX_Vpternlogd_xmm_k1z_xmm_xmmm128b32_imm8
        EVEX_Vpternlogd_ymm_k1z_ymm_ymmm256b32_imm8 EVEX_Vpternlogd_zmm_k1z_zmm_zmmm512b32_imm8
        EVEX_Vpternlogq_xmm_k1z_xmm_xmmm128b64_imm8 EVEX_Vpternlogq_ymm_k1z_ymm_ymmm256b64_imm8
        EVEX_Vpternlogq_zmm_k1z_zmm_zmmm512b64_imm8 EVEX_Vgetmantss_xmm_k1z_xmm_xmmm32_imm8_sae
        EVEX_Vgetmantsd_xmm_k1z_xmm_xmmm64_imm8_sae EVEX_Vinserti32x4_ymm_k1z_ymm_xmmm128_imm8
        EVEX_Vinserti32x4_zmm_k1z_zmm_xmmm128_imm8 EVEX_Vinserti64x2_ymm_k1z_ymm_xmmm128_imm8
        EVEX_Vinserti64x2_zmm_k1z_zmm_xmmm128_imm8 EVEX_Vinserti32x8_zmm_k1z_zmm_ymmm256_imm8
        EVEX_Vinserti64x4_zmm_k1z_zmm_ymmm256_imm8 EVEX_Vpcmpub_kr_k1_xmm_xmmm128_imm8
        EVEX_Vpcmpub_kr_k1_ymm_ymmm256_imm8 EVEX_Vpcmpub_kr_k1_zmm_zmmm512_imm8 EVEX_Vpcmpuw_kr_k1_xmm_xmmm128_imm8
        EVEX_Vpcmpuw_kr_k1_ymm_ymmm256_imm8 EVEX_Vpcmpuw_kr_k1_zmm_zmmm512_imm8 EVEX_Vpcmpb_kr_k1_xmm_xmmm128_imm8
        EVEX_Vpcmpb_kr_k1_ymm_ymmm256_imm8 EVEX_Vpcmpb_kr_k1_zmm_zmmm512_imm8 EVEX_Vpcmpw_kr_k1_xmm_xmmm128_imm8
        EVEX_Vpcmpw_kr_k1_ymm_ymmm256_imm8 EVEX_Vpcmpw_kr_k1_zmm_zmmm512_imm8 EVEX_Vdbpsadbw_xmm_k1z_xmm_xmmm128_imm8
        EVEX_Vdbpsadbw_ymm_k1z_ymm_ymmm256_imm8 EVEX_Vdbpsadbw_zmm_k1z_zmm_zmmm512_imm8
        EVEX_Vshufi32x4_ymm_k1z_ymm_ymmm256b32_imm8 EVEX_Vshufi32x4_zmm_k1z_zmm_zmmm512b32_imm8
        EVEX_Vshufi64x2_ymm_k1z_ymm_ymmm256b64_imm8 EVEX_Vshufi64x2_zmm_k1z_zmm_zmmm512b64_imm8
        EVEX_Vpclmulqdq_xmm_xmm_xmmm128_imm8 EVEX_Vpclmulqdq_ymm_ymm_ymmm256_imm8 EVEX_Vpclmulqdq_zmm_zmm_zmmm512_imm8
        EVEX_Vrangeps_xmm_k1z_xmm_xmmm128b32_imm8 EVEX_Vrangeps_ymm_k1z_ymm_ymmm256b32_imm8
        EVEX_Vrangeps_zmm_k1z_zmm_zmmm512b32_imm8_sae EVEX_Vrangepd_xmm_k1z_xmm_xmmm128b64_imm8
        EVEX_Vrangepd_ymm_k1z_ymm_ymmm256b64_imm8 EVEX_Vrangepd_zmm_k1z_zmm_zmmm512b64_imm8_sae
        EVEX_Vrangess_xmm_k1z_xmm_xmmm32_imm8_sae EVEX_Vrangesd_xmm_k1z_xmm_xmmm64_imm8_sae
        EVEX_Vfixupimmps_xmm_k1z_xmm_xmmm128b32_imm8 EVEX_Vfixupimmps_ymm_k1z_ymm_ymmm256b32_imm8
        EVEX_Vfixupimmps_zmm_k1z_zmm_zmmm512b32_imm8_sae EVEX_Vfixupimmpd_xmm_k1z_xmm_xmmm128b64_imm8
        EVEX_Vfixupimmpd_ymm_k1z_ymm_ymmm256b64_imm8 EVEX_Vfixupimmpd_zmm_k1z_zmm_zmmm512b64_imm8_sae
        EVEX_Vfixupimmss_xmm_k1z_xmm_xmmm32_imm8_sae EVEX_Vfixupimmsd_xmm_k1z_xmm_xmmm64_imm8_sae
        EVEX_Vreducess_xmm_k1z_xmm_xmmm32_imm8_sae EVEX_Vreducesd_xmm_k1z_xmm_xmmm64_imm8_sae
        EVEX_Vpshldw_xmm_k1z_xmm_xmmm128_imm8 EVEX_Vpshldw_ymm_k1z_ymm_ymmm256_imm8
        EVEX_Vpshldw_zmm_k1z_zmm_zmmm512_imm8 EVEX_Vpshldd_xmm_k1z_xmm_xmmm128b32_imm8
        EVEX_Vpshldd_ymm_k1z_ymm_ymmm256b32_imm8 EVEX_Vpshldd_zmm_k1z_zmm_zmmm512b32_imm8
        EVEX_Vpshldq_xmm_k1z_xmm_xmmm128b64_imm8 EVEX_Vpshldq_ymm_k1z_ymm_ymmm256b64_imm8
        EVEX_Vpshldq_zmm_k1z_zmm_zmmm512b64_imm8 EVEX_Vpshrdw_xmm_k1z_xmm_xmmm128_imm8
        EVEX_Vpshrdw_ymm_k1z_ymm_ymmm256_imm8 EVEX_Vpshrdw_zmm_k1z_zmm_zmmm512_imm8
        EVEX_Vpshrdd_xmm_k1z_xmm_xmmm128b32_imm8 EVEX_Vpshrdd_ymm_k1z_ymm_ymmm256b32_imm8
        EVEX_Vpshrdd_zmm_k1z_zmm_zmmm512b32_imm8 EVEX_Vpshrdq_xmm_k1z_xmm_xmmm128b64_imm8
        EVEX_Vpshrdq_ymm_k1z_ymm_ymmm256b64_imm8 EVEX_Vpshrdq_zmm_k1z_zmm_zmmm512b64_imm8
        EVEX_Vgf2p8affineqb_xmm_k1z_xmm_xmmm128b64_imm8 EVEX_Vgf2p8affineqb_ymm_k1z_ymm_ymmm256b64_imm8
        EVEX_Vgf2p8affineqb_zmm_k1z_zmm_zmmm512b64_imm8 EVEX_Vgf2p8affineinvqb_xmm_k1z_xmm_xmmm128b64_imm8
        EVEX_Vgf2p8affineinvqb_ymm_k1z_ymm_ymmm256b64_imm8 EVEX_Vgf2p8affineinvqb_zmm_k1z_zmm_zmmm512b64_imm8
    }
    Avx512 Store(0) [] writes() clobbers() {
        EVEX_Vmovss_m32_k1_xmm EVEX_Vmovsd_m64_k1_xmm EVEX_Vmovlps_m64_xmm EVEX_Vmovlpd_m64_xmm EVEX_Vmovhps_m64_xmm
        EVEX_Vmovhpd_m64_xmm EVEX_Vmovntps_m128_xmm EVEX_Vmovntps_m256_ymm EVEX_Vmovntps_m512_zmm
        EVEX_Vmovntpd_m128_xmm EVEX_Vmovntpd_m256_ymm EVEX_Vmovntpd_m512_zmm VEX_Kmovw_m16_kr VEX_Kmovq_m64_kr
        VEX_Kmovb_m8_kr VEX_Kmovd_m32_kr EVEX_Vmovntdq_m128_xmm EVEX_Vmovntdq_m256_ymm EVEX_Vmovntdq_m512_zmm
    }
    Avx512 Store(0) [] writes(0) clobbers() {
        EVEX_Vmovups_xmmm128_k1z_xmm EVEX_Vmovups_ymmm256_k1z_ymm EVEX_Vmovups_zmmm512_k1z_zmm
        EVEX_Vmovupd_xmmm128_k1z_xmm EVEX_Vmovupd_ymmm256_k1z_ymm EVEX_Vmovupd_zmmm512_k1z_zmm
        EVEX_Vmovaps_xmmm128_k1z_xmm EVEX_Vmovaps_ymmm256_k1z_ymm EVEX_Vmovaps_zmmm512_k1z_zmm
        EVEX_Vmovapd_xmmm128_k1z_xmm EVEX_Vmovapd_ymmm256_k1z_ymm EVEX_Vmovapd_zmmm512_k1z_zmm EVEX_Vmovd_rm32_xmm
        EVEX_Vmovq_rm64_xmm EVEX_Vmovdqa32_xmmm128_k1z_xmm EVEX_Vmovdqa32_ymmm256_k1z_ymm
        EVEX_Vmovdqa32_zmmm512_k1z_zmm EVEX_Vmovdqa64_xmmm128_k1z_xmm EVEX_Vmovdqa64_ymmm256_k1z_ymm
        EVEX_Vmovdqa64_zmmm512_k1z_zmm EVEX_Vmovdqu32_xmmm128_k1z_xmm EVEX_Vmovdqu32_ymmm256_k1z_ymm
        EVEX_Vmovdqu32_zmmm512_k1z_zmm EVEX_Vmovdqu64_xmmm128_k1z_xmm EVEX_Vmovdqu64_ymmm256_k1z_ymm
        EVEX_Vmovdqu64_zmmm512_k1z_zmm EVEX_Vmovdqu8_xmmm128_k1z_xmm EVEX_Vmovdqu8_ymmm256_k1z_ymm
        EVEX_Vmovdqu8_zmmm512_k1z_zmm EVEX_Vmovdqu16_xmmm128_k1z_xmm EVEX_Vmovdqu16_ymmm256_k1z_ymm
        EVEX_Vmovdqu16_zmmm512_k1z_zmm EVEX_Vmovq_xmmm64_xmm EVEX_Vpmovuswb_xmmm64_k1z_xmm
        EVEX_Vpmovuswb_xmmm128_k1z_ymm EVEX_Vpmovuswb_ymmm256_k1z_zmm EVEX_Vpmovusdb_xmmm32_k1z_xmm
        EVEX_Vpmovusdb_xmmm64_k1z_ymm EVEX_Vpmovusdb_xmmm128_k1z_zmm EVEX_Vpmovusqb_xmmm16_k1z_xmm
        EVEX_Vpmovusqb_xmmm32_k1z_ymm EVEX_Vpmovusqb_xmmm64_k1z_zmm EVEX_Vpmovusdw_xmmm64_k1z_xmm
        EVEX_Vpmovusdw_xmmm128_k1z_ymm EVEX_Vpmovusdw_ymmm256_k1z_zmm EVEX_Vpmovusqw_xmmm32_k1z_xmm
        EVEX_Vpmovusqw_xmmm64_k1z_ymm EVEX_Vpmovusqw_xmmm128_k1z_zmm EVEX_Vpmovusqd_xmmm64_k1z_xmm
        EVEX_Vpmovusqd_xmmm128_k1z_ymm EVEX_Vpmovusqd_ymmm256_k1z_zmm EVEX_Vpmovswb_xmmm64_k1z_xmm
        EVEX_Vpmovswb_xmmm128_k1z_ymm EVEX_Vpmovswb_ymmm256_k1z_zmm EVEX_Vpmovsdb_xmmm32_k1z_xmm
        EVEX_Vpmovsdb_xmmm64_k1z_ymm EVEX_Vpmovsdb_xmmm128_k1z_zmm EVEX_Vpmovsqb_xmmm16_k1z_xmm
        EVEX_Vpmovsqb_xmmm32_k1z_ymm EVEX_Vpmovsqb_xmmm64_k1z_zmm EVEX_Vpmovsdw_xmmm64_k1z_xmm
        EVEX_Vpmovsdw_xmmm128_k1z_ymm EVEX_Vpmovsdw_ymmm256_k1z_zmm EVEX_Vpmovsqw_xmmm32_k1z_xmm
        EVEX_Vpmovsqw_xmmm64_k1z_ymm EVEX_Vpmovsqw_xmmm128_k1z_zmm EVEX_Vpmovsqd_xmmm64_k1z_xmm
        EVEX_Vpmovsqd_xmmm128_k1z_ymm EVEX_Vpmovsqd_ymmm256_k1z_zmm EVEX_Vpmovwb_xmmm64_k1z_xmm
        EVEX_Vpmovwb_xmmm128_k1z_ymm EVEX_Vpmovwb_ymmm256_k1z_zmm EVEX_Vpmovdb_xmmm32_k1z_xmm
        EVEX_Vpmovdb_xmmm64_k1z_ymm EVEX_Vpmovdb_xmmm128_k1z_zmm EVEX_Vpmovqb_xmmm16_k1z_xmm
        EVEX_Vpmovqb_xmmm32_k1z_ymm EVEX_Vpmovqb_xmmm64_k1z_zmm EVEX_Vpmovdw_xmmm64_k1z_xmm
        EVEX_Vpmovdw_xmmm128_k1z_ymm EVEX_Vpmovdw_ymmm256_k1z_zmm EVEX_Vpmovqw_xmmm32_k1z_xmm
        EVEX_Vpmovqw_xmmm64_k1z_ymm EVEX_Vpmovqw_xmmm128_k1z_zmm EVEX_Vpmovqd_xmmm64_k1z_xmm
        EVEX_Vpmovqd_xmmm128_k1z_ymm EVEX_Vpmovqd_ymmm256_k1z_zmm EVEX_Vpcompressb_xmmm128_k1z_xmm
        EVEX_Vpcompressb_ymmm256_k1z_ymm EVEX_Vpcompressb_zmmm512_k1z_zmm EVEX_Vpcompressw_xmmm128_k1z_xmm
        EVEX_Vpcompressw_ymmm256_k1z_ymm EVEX_Vpcompressw_zmmm512_k1z_zmm EVEX_Vcompressps_xmmm128_k1z_xmm
        EVEX_Vcompressps_ymmm256_k1z_ymm EVEX_Vcompressps_zmmm512_k1z_zmm EVEX_Vcompresspd_xmmm128_k1z_xmm
        EVEX_Vcompresspd_ymmm256_k1z_ymm EVEX_Vcompresspd_zmmm512_k1z_zmm EVEX_Vpcompressd_xmmm128_k1z_xmm
        EVEX_Vpcompressd_ymmm256_k1z_ymm EVEX_Vpcompressd_zmmm512_k1z_zmm EVEX_Vpcompressq_xmmm128_k1z_xmm
        EVEX_Vpcompressq_ymmm256_k1z_ymm EVEX_Vpcompressq_zmmm512_k1z_zmm EVEX_Vpextrb_r32m8_xmm_imm8
        EVEX_Vpextrb_r64m8_xmm_imm8 EVEX_Vpextrw_r32m16_xmm_imm8 EVEX_Vpextrw_r64m16_xmm_imm8
        EVEX_Vpextrd_rm32_xmm_imm8 EVEX_Vpextrq_rm64_xmm_imm8 EVEX_Vextractps_rm32_xmm_imm8
        EVEX_Vextractps_r64m32_xmm_imm8 EVEX_Vextractf32x4_xmmm128_k1z_ymm_imm8
        EVEX_Vextractf32x4_xmmm128_k1z_zmm_imm8 EVEX_Vextractf64x2_xmmm128_k1z_ymm_imm8
        EVEX_Vextractf64x2_xmmm128_k1z_zmm_imm8 EVEX_Vextractf32x8_ymmm256_k1z_zmm_imm8
        EVEX_Vextractf64x4_ymmm256_k1z_zmm_imm8 EVEX_Vcvtps2ph_xmmm64_k1z_xmm_imm8 EVEX_Vcvtps2ph_xmmm128_k1z_ymm_imm8
        EVEX_Vcvtps2ph_ymmm256_k1z_zmm_imm8_sae EVEX_Vextracti32x4_xmmm128_k1z_ymm_imm8
        EVEX_Vextracti32x4_xmmm128_k1z_zmm_imm8 EVEX_Vextracti64x2_xmmm128_k1z_ymm_imm8
        EVEX_Vextracti64x2_xmmm128_k1z_zmm_imm8 EVEX_Vextracti32x8_ymmm256_k1z_zmm_imm8
        EVEX_Vextracti64x4_ymmm256_k1z_zmm_imm8
    }
    Avx512 Gather(1) [] writes(0) clobbers() {
        EVEX_Vpgatherdd_xmm_k1_vm32x EVEX_Vpgatherdd_ymm_k1_vm32y EVEX_Vpgatherdd_zmm_k1_vm32z
        EVEX_Vpgatherdq_xmm_k1_vm32x EVEX_Vpgatherdq_ymm_k1_vm32x EVEX_Vpgatherdq_zmm_k1_vm32y
        EVEX_Vpgatherqd_xmm_k1_vm64x EVEX_Vpgatherqd_xmm_k1_vm64y EVEX_Vpgatherqd_ymm_k1_vm64z
        EVEX_Vpgatherqq_xmm_k1_vm64x EVEX_Vpgatherqq_ymm_k1_vm64y EVEX_Vpgatherqq_zmm_k1_vm64z
        EVEX_Vgatherdps_xmm_k1_vm32x EVEX_Vgatherdps_ymm_k1_vm32y EVEX_Vgatherdps_zmm_k1_vm32z
        EVEX_Vgatherdpd_xmm_k1_vm32x EVEX_Vgatherdpd_ymm_k1_vm32x EVEX_Vgatherdpd_zmm_k1_vm32y
        EVEX_Vgatherqps_xmm_k1_vm64x EVEX_Vgatherqps_xmm_k1_vm64y EVEX_Vgatherqps_ymm_k1_vm64z
        EVEX_Vgatherqpd_xmm_k1_vm64x EVEX_Vgatherqpd_ymm_k1_vm64y EVEX_Vgatherqpd_zmm_k1_vm64z
    }
}
